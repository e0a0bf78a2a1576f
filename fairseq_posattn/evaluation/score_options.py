"""What posattn-score is told on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from fairseq_posattn.io.argument_types import positive
from fairseq_posattn.trees.projection import SEPARATOR


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="posattn-score",
        description="Score a translation of a test set, alone and against a baseline.",
    )
    parser.add_argument("hypotheses", help="the translation, detokenised, one sentence a line")
    references = parser.add_mutually_exclusive_group(required=True)
    references.add_argument("--references", nargs="+", metavar="FILE", help="one or several texts")
    references.add_argument("--sgm", nargs="+", metavar="FILE", help="references in NIST's form")
    parser.add_argument("--sgm-source", metavar="FILE", help="gives the order of the segments")
    parser.add_argument("--json", metavar="OUT", help="write all of it here, for posattn-report")
    add_names(parser.add_argument_group("names"))
    add_scoring(parser.add_argument_group("scoring"))
    add_sources(parser.add_argument_group("BLEU by the source's properties"))
    add_logs(parser.add_argument_group("taken over into the JSON"))
    return parser.parse_args(arguments)


def add_names(group) -> None:
    group.add_argument("--name", default="", help="of the system (default: of the file)")
    group.add_argument("--test", default="", help="of the test set")
    group.add_argument("--source-lang", default="", metavar="LANG")
    group.add_argument(
        *("--target-lang", "-t"), default="", metavar="LANG", help="asks for tokenised BLEU, too"
    )


def add_scoring(group) -> None:
    group.add_argument(
        "--tokenize", choices=sorted(BLEU.TOKENIZERS), help="sacrebleu's; by target, or 13a"
    )
    group.add_argument("--lowercase", action="store_true", help="blind to case")
    group.add_argument(
        "--nist", action="store_true", help="NIST BLEU, as always with several references"
    )
    group.add_argument("--baseline", metavar="FILE", help="translation by another system")
    group.add_argument("--baseline-name", default="", metavar="NAME")
    group.add_argument(
        "--samples",
        type=positive,
        metavar="N",
        help="of both significance tests (default: 1000 bootstrap, 10000 randomisation)",
    )


def add_sources(group) -> None:
    group.add_argument("--source", metavar="FILE", help="words: BLEU by length")
    group.add_argument("--trees", metavar="FILE.conllu", help="BLEU by depth; also .xz")
    group.add_argument("--pieces", metavar="FILE", help="BLEU by number of split words")
    group.add_argument("--separator", default=SEPARATOR, help="mark of the pieces: @@ or ▁")


def add_logs(group) -> None:
    group.add_argument(
        "--generate-log", nargs="+", metavar="FILE", help="of fairseq-generate; shards of one run"
    )
    group.add_argument(
        "--parsing-log", nargs="+", metavar="FILE", help="the same, parsing while it translated"
    )
    group.add_argument(
        "--train-log", nargs="+", metavar="FILE", help="of fairseq-train, on all its machines"
    )
    group.add_argument("--examples", metavar="FILE", help="of posattn-examples")
