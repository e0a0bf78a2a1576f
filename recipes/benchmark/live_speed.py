"""Measure what parsing new text costs a translation, beside the same text with trees at hand.

    python recipes/benchmark/live_speed.py data raw/test.en --subset test \
        --path structural=run/averaged.pt tree_supervised=other/averaged.pt

All models translate the same sentences in turn, in batches of the same size, with one thread:
`at hand` as fairseq-generate does, with the trees of the data if the model reads trees, and `live`
as fairseq-interactive does, from raw text, which a process beside it tokenises and parses. Models
and parser are loaded before. A ratio is taken within each round, and the interval is a bootstrap
interval of the median (95 %).
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli.interactive import make_batches
from setting import PLUGIN, in_turns, interval, report, times_faster

from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines


class Translation:
    """Holds a model, and translates the test set with trees at hand, or from raw text."""

    def __init__(self, path: str, lines: list[str], args: Namespace):
        arguments = [args.data, "--user-dir", PLUGIN, "--task", "structured_translation"]
        arguments += ["--path", path, "--beam", str(args.beam), "--cpu"]
        arguments += ["--batch-size", str(args.batch_size), "--buffer-size", str(len(lines))]
        if args.parser_dir:
            arguments += ["--parser-dir", args.parser_dir]
        parser = options.get_interactive_generation_parser()
        self.cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))
        utils.import_user_module(self.cfg.common)
        self.task = tasks.setup_task(self.cfg.task)
        self.models, _ = checkpoint_utils.load_model_ensemble([path], task=self.task)
        for model in self.models:
            model.prepare_for_inference_(self.cfg)
        self.generator = self.task.build_generator(self.models, self.cfg.generation)
        self.encode = self.task.build_bpe(self.cfg.bpe).encode
        self.lines, self.subset = lines, args.subset
        self.task.load_dataset(self.subset)

    def at_hand(self, _: int) -> float:
        """Return the seconds that the test set takes."""
        return self.seconds(self.batches_of_data())

    def live(self, _: int) -> float:
        """Return the seconds that the raw text takes."""
        return self.seconds(self.batches_of_text())

    def seconds(self, batches: Iterator[dict]) -> float:
        """Return how long it takes to get and to translate all batches."""
        began, count = time.perf_counter(), 0
        for batch in batches:
            count += len(self.task.inference_step(self.generator, self.models, batch))
        assert count == len(self.lines)
        return time.perf_counter() - began

    def batches_of_data(self) -> Iterator[dict]:
        """Yield the batches of the test set."""
        batches = self.task.get_batch_iterator(
            self.task.datasets[self.subset],
            max_sentences=self.cfg.dataset.batch_size,
            max_positions=self.longest(),
        )
        yield from batches.next_epoch_itr(shuffle=False)

    def batches_of_text(self) -> Iterator[dict]:
        """Yield the batches of the raw text, as fairseq-interactive translates them."""
        batches = make_batches(list(self.lines), self.cfg, self.task, self.longest(), self.encode)
        for batch in batches:
            pieces = {"src_tokens": batch.src_tokens, "src_lengths": batch.src_lengths}
            yield {"net_input": pieces}

    def longest(self):
        """Return how long a sentence may be."""
        return utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )


def main() -> None:
    """Measure all models and print sentences a second."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the models were trained on this folder")
    parser.add_argument("text", help="the raw source of the test set, one sentence a line")
    parser.add_argument("--subset", default="test", help="the test set has this name in the data")
    parser.add_argument(
        "--path", nargs="+", required=True, metavar="NAME=MODEL", help="measure these models"
    )
    parser.add_argument("--parser-dir", help="read stanza's models from this folder")
    parser.add_argument("--beam", type=int, default=5, help="search with so many hypotheses")
    parser.add_argument(
        "--batch-size", type=int, default=32, help="translate so many sentences at once"
    )
    parser.add_argument("--rounds", type=int, default=5, help="measure all models so many times")
    parser.add_argument("--json", help="write the rows to this file, too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [line.strip() for line in read_lines(args.text)]
    named = [text.rpartition("=")[::2] for text in args.path]
    translations = {name or Path(path).stem: Translation(path, lines, args) for name, path in named}
    candidates = {}
    for name, translation in translations.items():
        candidates[f"{name}, at hand"] = translation.at_hand
        if translation.task.needs_trees:
            candidates[f"{name}, live"] = translation.live
    for translate in candidates.values():  # this loads the parsers
        translate(0)
    taken = in_turns(candidates, args.rounds)
    first = next(iter(taken))
    rows = []
    for name, seconds in taken.items():
        beside = name.replace(", live", ", at hand") if name.endswith(", live") else first
        ratio, low, high = times_faster(taken[beside], seconds)
        speed = len(lines) / statistics.median(seconds)
        rows.append({"what": name, "sentences_per_second": speed, "beside": beside})
        rows[-1] |= {"ratio": ratio, "low": low, "high": high}
    columns = {
        "what": lambda row: row["what"],
        "sentences/s": lambda row: f"{row['sentences_per_second']:.1f}",
        "beside": lambda row: row["beside"],
        "ratio": lambda row: f"{row['ratio']:.3f}",
        "95 % interval": interval,
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
