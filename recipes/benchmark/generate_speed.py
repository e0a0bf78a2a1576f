"""Measure the decoding speed of specifications relative to fairseq's stock Transformer.

    python recipes/benchmark/generate_speed.py --json generate.json
    python recipes/benchmark/generate_speed.py --int8 --vocabulary 32000

All models translate the same sentences with the generator of the task. They are untrained, so the
length of the translations is fixed to the mean length of the sentences.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

import torch
from fairseq import utils
from fairseq.tasks.translation import TranslationTask
from setting import (
    STOCK,
    Model,
    configure,
    in_turns,
    interval,
    make_corpus,
    models_parser,
    quiet,
    report,
    seconds,
    set_up,
    times_faster,
)
from torch.profiler import ProfilerActivity, profile

from fairseq_posattn.files import command_line

DEFAULT = ["structural"]
KINDS = {  # parts of the names of torch's operations
    "products": ("mm", "linear"),
    "softmax and top-k": ("softmax", "topk"),
    "copies": ("cat", "index_select", "copy_", "fill_"),
}
OTHERS, PYTHON = "other operations", "Python"


class Translation:
    """A model with the batches that it translates."""

    def __init__(self, data: Path, specification: str, args, int8: bool = False):
        cfg = configure(data, Model.parse(specification), args.size, "--max-tokens", "1000")
        self.task, model, _ = set_up(cfg)
        self.task.cfg.int8 = int8
        self.model = model.cuda() if torch.cuda.is_available() else model
        self.model.eval()
        self.model.prepare_for_inference_(cfg)
        length = {"max_len_a": 0, "max_len_b": args.length, "min_len": args.length}
        # the plug-in's task would also accelerate the beam search of stock models
        stock = specification == STOCK and not int8
        task = TranslationTask if stock else type(self.task)
        options = Namespace(beam=args.beam, **length)
        self.generator = task.build_generator(self.task, [model], options)
        dataset = self.task.datasets["train"]
        iterator = self.task.get_batch_iterator(dataset, max_sentences=args.batch_size)
        epoch = iterator.next_epoch_itr(shuffle=False)
        self.batches = [batch for _, batch in zip(range(args.batches), epoch, strict=False)]

    def seconds(self, k: int) -> float:
        """Return the time to translate one batch, in seconds."""
        return seconds(self.translate, self.batches[k % len(self.batches)])

    def translate(self, sample: dict) -> None:
        if torch.cuda.is_available():
            sample = utils.move_to_cuda(sample)
        self.task.inference_step(self.generator, [self.model], sample)


def budget(run: Translation) -> dict[str, float]:
    """Return the share of each kind of operation in the time to translate a batch."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        run.seconds(0)
    taken = dict.fromkeys([*KINDS, OTHERS, PYTHON], 0.0)
    for event in found.key_averages():
        kinds = (kind for kind, names in KINDS.items() if any(n in event.key for n in names))
        kind = next(kinds, OTHERS) if "::" in event.key else PYTHON
        taken[kind] += event.self_cpu_time_total
    return {kind: value / sum(taken.values()) for kind, value in taken.items()}


def main() -> None:
    """Measure the models in turn and print the ratios."""
    parser = models_parser(
        __doc__.splitlines()[0],
        DEFAULT,
        "models to measure, as 'POSITIONS / ATTENTION / CROSS-ATTENTION'",
    )
    parser.add_argument(
        "--batch-size", type=int, default=16, help="sentences per batch (default: %(default)s)"
    )
    parser.add_argument("--beam", type=int, default=4, help="beam size (default: %(default)s)")
    parser.add_argument(
        "--int8", action="store_true", help="also measure all models with 8-bit weights"
    )
    parser.add_argument(
        "--budget", action="store_true", help="also print the share of each kind of operation"
    )
    args = parser.parse_args()
    quiet()
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), args.sentences, args.vocabulary, args.length)
        runs = {s: Translation(Path(folder), s, args) for s in [STOCK, *args.specifications]}
        if args.int8:
            more = {f"{s}, int8": Translation(Path(folder), s, args, int8=True) for s in runs}
            runs |= more
    for run in runs.values():
        run.seconds(0)
    taken = in_turns({s: run.seconds for s, run in runs.items()}, args.pairs)
    rows = []
    for s in list(runs)[1:]:
        median, low, high = times_faster(taken[STOCK], taken[s])
        rows.append(
            {"specification": s, "sentences_per_second_ratio": median, "low": low, "high": high}
        )
    columns = {
        "specification": lambda r: r["specification"],
        "sentences/s to stock": lambda r: f"{r['sentences_per_second_ratio']:.3f}",
        "95 % interval": interval,
    }
    report(rows, columns, args.json)
    if args.budget:
        shares = {name: budget(run) for name, run in runs.items()}
        print("| time for | " + " | ".join(shares) + " |")
        print("|" + "---|" * (len(shares) + 1))
        for kind in shares[STOCK]:
            cells = (f"{100 * of_run[kind]:.1f} %" for of_run in shares.values())
            print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    command_line.run(main)
