r"""Measure training speed and memory of specifications relative to fairseq's stock Transformer.

    python recipes/benchmark/train_speed.py --json speed.json \
        'relative' 'tree_relative' 'sequence + tree_depth / relative + tree_relative'

A specification is ATTENTION, 'POSITIONS / ATTENTION', 'POSITIONS / ATTENTION / CROSS-ATTENTION', a
preset such as 'structural', or 'stock'. Options of fairseq-train for one model may follow it:
'structural; --compile'. The default is most mechanisms in their published layers, which take 1.2 GB
of memory and 2 minutes per mechanism. All models are trained in turn in one process on the same
sentences. Ratios are computed within each round, with a 95 % bootstrap interval of their median.
Peak memory is measured in a separate process for each model, excluding the memory that fairseq
itself needs.

With --compile, all batches are used before the first measurement, so that compilation is not
measured. The table shows the number of compiled graphs.
"""

from __future__ import annotations

import multiprocessing
import re
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from fairseq.trainer import Trainer
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

from fairseq_posattn.files import command_line

DEFAULT = [
    "window@0-2",
    "window(across=3)@0-2",
    "directional@0-2",
    "relative(shared_heads=false)@0-2",
    "gaussian@0-2",
    "local_hard@0-2",
    "local_soft@0-2",
    "block@0-2",
    "cnn@0-2",
    "none / direct_absolute",
    "none / direct_relative",
    "temperature",
    "convolved_1d",
    "convolved_2d",
    "parent_scaled",
    "none / alibi",
    "none / t5_bias",
    "none / rope",
    "disentangled(max=64)",
    "tree_window",
    "tree_distance",
    "tree_depth_relative",
    "deps_san@0-2",
    "tree_labels",
    "tree_gcn@0",
    "tree_supervised@3",
    "tree_supervised(scores=biaffine)@3",
    "sequence + relation_embedding + tag_embedding /",
    "tree_depth_bias",
    "/ / window(size=21)",
    "/ / gaussian",
    "/ / local_hard",
    "/ / local_soft",
    "/ / temperature",
    "/ / tree_depth_bias",
]
WARM_UP = 2


class Training:
    """A model in training, and the batches that all models share."""

    def __init__(self, data: Path, specification: str, args):
        extra = ["--max-tokens", str(args.max_tokens), "--max-source-positions", "256"]
        specification, _, own = specification.partition(";")
        extra += [*args.fairseq, *own.split()]
        cfg = configure(data, Model.parse(specification.strip()), args.size, *extra)
        task, self.model, criterion = set_up(cfg)
        self.trainer = Trainer(cfg, task, self.model, criterion)
        epoch = self.trainer.get_train_iterator(1, load_dataset=False)
        batches = epoch.next_epoch_itr(shuffle=False)
        self.batches = [batch for _, batch in zip(range(args.batches), batches, strict=False)]
        self.trainer.begin_epoch(1)
        self.task = task

    def step(self, k: int) -> float:
        """Return the duration of one complete training step, in seconds per 1,000 target pieces.

        With --compile on a GPU, batches are padded, so sizes differ from those of other models.
        """
        batch = self.batches[k % len(self.batches)]
        return seconds(self.trainer.train_step, [batch]) * 1000 / batch["ntokens"]

    def warm_up(self) -> None:
        """Run some steps that are not measured; with --compile, the first ones compile graphs."""
        self.step(0)
        for k in range(1, WARM_UP * (len(self.batches) if self.task.layers else 1)):
            self.step(k)

    @property
    def graphs(self) -> int:
        """Return the number of compiled graphs."""
        return self.task.layers.graphs if self.task.layers else 0

    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())


def measure_speed(
    data: Path, specifications: list[str], args
) -> tuple[dict[str, list[float]], dict[str, Training]]:
    """Return the times of each model by round, and the models."""
    trainings = {s: Training(data, s, args) for s in [STOCK, *specifications]}
    for training in trainings.values():
        training.warm_up()
    return in_turns({s: one.step for s, one in trainings.items()}, args.pairs), trainings


def peak_memory(data: Path, specification: str, args) -> int:
    """Return the peak memory of a few training steps in bytes, measured in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(peak_memory_here, data, specification, args).result()


def peak_memory_here(data: Path, specification: str, args) -> int:
    """Return the peak memory in bytes, minus the memory in use before the model was built."""
    quiet()
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak inherited from the parent
    before = resident("VmRSS")
    training = Training(data, specification, args)
    for k in range(WARM_UP + len(training.batches)):
        training.step(k)
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resident("VmHWM") - before


def resident(which: str) -> int:
    """Return the resident memory in bytes: VmRSS is the current value, VmHWM the peak."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{which}:\s+(\d+) kB", status)[1]) * 1024


def main() -> None:
    """Measure all models and print the ratios."""
    parser = models_parser(
        __doc__.splitlines()[0],
        DEFAULT,
        "models to measure (default: most mechanisms)",
    )
    parser.add_argument(
        "--max-tokens", type=int, default=1000, help="pieces per batch (default: %(default)s)"
    )
    parser.add_argument("--speed-only", action="store_true", help="do not measure peak memory")
    parser.add_argument(
        "--fairseq",
        nargs="*",
        default=[],
        help="options for fairseq-train, without dashes, such as bf16 or name=value",
    )
    args = parser.parse_args()
    quiet()
    args.fairseq = [f"--{option.lstrip('-')}" for option in args.fairseq]
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), args.sentences, args.vocabulary, args.length)
        measured = [] if args.speed_only else [STOCK, *args.specifications]
        memory = {s: peak_memory(Path(folder), s, args) for s in measured}
        taken, trained = measure_speed(Path(folder), args.specifications, args)
    rows = []
    for s in args.specifications:
        median, low, high = times_faster(taken[STOCK], taken[s])
        rows.append(
            {
                "specification": s,
                "words_per_second_ratio": median,
                "low": low,
                "high": high,
                "peak_memory_ratio": memory[s] / memory[STOCK] if memory else None,
                "added_parameters": trained[s].parameters() - trained[STOCK].parameters(),
                "compiled_graphs": trained[s].graphs,
            }
        )
    columns = {
        "specification": lambda r: r["specification"],
        "words/s to stock": lambda r: f"{r['words_per_second_ratio']:.3f}",
        "95 % interval": interval,
        "peak memory to stock": lambda r: "{:.3f}".format(r["peak_memory_ratio"] or float("nan")),
        "added parameters": lambda r: f"{r['added_parameters']:,}",
        "compiled graphs": lambda r: str(r["compiled_graphs"]),
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
