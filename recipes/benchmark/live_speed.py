"""Measure what parsing new text costs a translation, beside the same text parsed before.

    python recipes/benchmark/live_speed.py data raw/test.en \\
        --path structural=run/averaged.pt tree_supervised=other/averaged.pt

All models translate the same raw lines in turn with one thread, as fairseq-interactive does: `live`
with a parser in a process beside it, `at hand` with what that parser answered before. Models and
parser are loaded before, and only text whose pieces need the parser's words is tokenised for models
that read no trees. A ratio is taken within each round, and the interval is a bootstrap interval of
the median (95 %).
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch
from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import interactive
from setting import PLUGIN, in_turns, interval, report, times_faster

from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.text.live.parser_process import LiveParser, Turns
from fairseq_posattn.trees import Sentence


class Known(LiveParser):
    """Asks the parser what it was not asked before, and knows all other answers."""

    def __init__(self, parser: LiveParser):
        self.parser, self.turns = parser, Turns()
        self.answers: dict[tuple[str, str], Sentence] = {}

    def ask(self, what: str, lines: list) -> list[Sentence]:
        """Return the answers of the parser."""
        new = [line for line in lines if (what, repr(line)) not in self.answers]
        for line, answer in zip(new, self.parser.ask(what, new), strict=True):
            self.answers[what, repr(line)] = answer
        return [self.answers[what, repr(line)] for line in lines]


class Translation:
    """Holds a model, and translates a text."""

    def __init__(self, path: str, args: Namespace):
        arguments = [args.data, "--user-dir", PLUGIN, "--task", "structured_translation", "--cpu"]
        arguments += ["--path", path, "--beam", str(args.beam), "--input", args.text]
        arguments += ["--batch-size", str(args.batch_size), "--buffer-size", str(args.buffer_size)]
        if args.length:
            length = str(args.length)
            arguments += ["--max-len-a", "0", "--max-len-b", length, "--min-len", length]
        if args.parser_dir:
            arguments += ["--parser-dir", args.parser_dir]
        parser = options.get_interactive_generation_parser()
        self.cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))
        utils.import_user_module(self.cfg.common)
        self.task = tasks.setup_task(self.cfg.task)
        self.models, _ = checkpoint_utils.load_model_ensemble([path], task=self.task)
        for model in self.models:
            model.prepare_for_inference_(self.cfg)
        self.encode = self.task.build_bpe(self.cfg.bpe).encode
        self.live_parser = self.task.new_text.stanza.parser
        self.known = Known(self.live_parser)

    def at_hand(self, _: int) -> float:
        """Return the seconds that the text takes where the parser has answered before."""
        return self.seconds(self.known)

    def live(self, _: int) -> float:
        """Return the seconds that the text takes."""
        return self.seconds(self.live_parser)

    def seconds(self, parser: LiveParser) -> float:
        """Return how long the translation of all lines takes."""
        self.task.new_text.stanza.parser = parser
        self.task.new_text.prepared = 0  # a text begins, of which nothing is known ahead
        generator = self.task.build_generator(self.models, self.cfg.generation)
        given = self.cfg.interactive
        began = time.perf_counter()
        for lines in interactive.buffered_read(given.input, given.buffer_size):
            longest = utils.resolve_max_positions(
                self.task.max_positions(), *(model.max_positions() for model in self.models)
            )
            batches = interactive.make_batches(lines, self.cfg, self.task, longest, self.encode)
            for batch in batches:
                pieces = {"src_tokens": batch.src_tokens, "src_lengths": batch.src_lengths}
                self.task.inference_step(generator, self.models, {"net_input": pieces})
        return time.perf_counter() - began


def main() -> None:
    """Measure all models and print sentences a second."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the models were trained on this folder")
    parser.add_argument("text", help="translate this raw text, which has one sentence a line")
    parser.add_argument(
        "--path", nargs="+", required=True, metavar="NAME=MODEL", help="measure these models"
    )
    parser.add_argument("--parser-dir", help="read stanza's models from this folder")
    parser.add_argument("--beam", type=int, default=5, help="search with so many hypotheses")
    parser.add_argument(
        "--batch-size", type=int, default=32, help="translate so many sentences at once"
    )
    parser.add_argument(
        "--buffer-size", type=int, default=200, help="sort so many sentences by their length"
    )
    parser.add_argument(
        "--length", type=int, help="write translations of so many pieces, whatever a model finds"
    )
    parser.add_argument("--rounds", type=int, default=5, help="measure all models so many times")
    parser.add_argument("--json", help="write the rows to this file, too")
    args = parser.parse_args()
    torch.set_num_threads(1)
    count = sum(1 for _ in read_lines(args.text))
    named = [text.rpartition("=")[::2] for text in args.path]
    candidates = {}
    for name, path in named:
        translation = Translation(path, args)
        candidates[f"{name or Path(path).stem}, at hand"] = translation.at_hand
        candidates[f"{name or Path(path).stem}, live"] = translation.live
    for translate in candidates.values():  # this loads the parsers
        translate(0)
    taken = in_turns(candidates, args.rounds)
    rows, names = [], list(taken)
    for k, (name, seconds) in enumerate(taken.items()):
        beside = names[k - 1 if k % 2 else 0]  # its own at hand, or the first of all
        ratio, low, high = times_faster(taken[beside], seconds)
        speed = count / statistics.median(seconds)
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
