"""Define the options of posattn-score on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from fairseq_posattn.io.argument_types import Parser, not_negative, positive
from fairseq_posattn.trees.projection import SEPARATOR


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = Parser(
        prog="posattn-score",
        description="Score a translation of a test set, alone and against a baseline.",
    )
    parser.add_argument(
        "hypotheses",
        nargs="+",
        metavar="HYPOTHESES",
        help="score this translation, which is detokenised and has one sentence a line; several "
        "files are the translations by the runs of one system, trained with several seeds",
    )
    references = parser.add_mutually_exclusive_group(required=True)
    references.add_argument(
        "--references", nargs="+", metavar="FILE", help="compare with one or several texts"
    )
    references.add_argument(
        "--sgm", nargs="+", metavar="FILE", help="compare with references in NIST's format"
    )
    parser.add_argument(
        "--sgm-source", metavar="FILE", help="take the order of the segments from this file"
    )
    parser.add_argument("--json", metavar="OUT", help="write all figures here, for posattn-report")
    add_names(parser.add_argument_group("names"))
    add_scoring(parser.add_argument_group("scoring"))
    add_sources(parser.add_argument_group("BLEU by the source's properties"))
    add_words(parser.add_argument_group("F1 of words"))
    add_logs(parser.add_argument_group("what the JSON takes over from other files"))
    return parser.parse_args(arguments)


def add_names(group) -> None:
    """Add the options that name systems, test set and languages."""
    group.add_argument(
        "--name", default="", help="name the system in the report (default: the name of the file)"
    )
    group.add_argument("--test", default="", help="name the test set in the report")
    group.add_argument(
        "--source-lang", default="", metavar="LANG", help="name the source language in the report"
    )
    group.add_argument(
        *("--target-lang", "-t"),
        default="",
        metavar="LANG",
        help="the translation is in this language, such as de, zh_CN or chinese: it decides how "
        "sacrebleu tokenises, and adds tokenised BLEU where there are spaces between words",
    )


def add_scoring(group) -> None:
    """Add the options of the metrics and of the comparison with a baseline."""
    group.add_argument(
        "--tokenize",
        choices=sorted(BLEU.TOKENIZERS),
        help="choose a tokeniser of sacrebleu (default: that of the target language, or 13a)",
    )
    group.add_argument("--lowercase", action="store_true", help="ignore the case of letters")
    group.add_argument(
        "--nist",
        action="store_true",
        help="compute NIST BLEU, which several references always have",
    )
    group.add_argument(
        "--baseline",
        nargs="+",
        default=[],
        metavar="FILE",
        help="compare with this translation by another system, or with those by its runs",
    )
    group.add_argument(
        "--baseline-name",
        default="",
        metavar="NAME",
        help="name the other system in the report (default: the name of the file)",
    )
    group.add_argument(
        "--segment-scores",
        nargs="+",
        default=[],
        metavar="NAME=FILE",
        help="take over numbers that another program gave the sentences, one a line, such as "
        "COMET=comet.txt; with several runs a file for each, in their order",
    )
    group.add_argument(
        "--baseline-segment-scores",
        nargs="+",
        default=[],
        metavar="NAME=FILE",
        help="take over such numbers of the baseline, too",
    )
    group.add_argument(
        "--lower-is-better",
        nargs="+",
        default=[],
        metavar="NAME",
        help="say of which segment scores the smaller ones are better, such as those of MetricX",
    )
    group.add_argument(
        "--samples",
        type=positive,
        metavar="N",
        help="draw N samples in the bootstrap and in randomisation "
        "(default: 1000 in the bootstrap, 10000 in randomisation)",
    )
    group.add_argument(
        "--sentences",
        type=not_negative,
        default=5,
        metavar="N",
        help="with --baseline: keep the N sentences that are translated better by most, and the N "
        "that are translated worse, by chrF2 (default: %(default)s)",
    )


def add_sources(group) -> None:
    """Add the options of files about the source sentences."""
    group.add_argument("--source", metavar="FILE", help="compute BLEU by length from these words")
    group.add_argument(
        "--trees",
        metavar="FILE.conllu",
        help="compute BLEU by depth from these trees (.conllu, .gz, .xz or .zst)",
    )
    group.add_argument(
        "--pieces", metavar="FILE", help="compute BLEU by number of split words from these pieces"
    )
    group.add_argument(
        "--separator",
        default=SEPARATOR,
        help="name the mark in the pieces, @@ or ▁ (default: %(default)s)",
    )


def add_words(group) -> None:
    """Add the options of files that put the words of the translation into groups."""
    group.add_argument(
        "--train-target",
        metavar="FILE",
        help="compute F1 of words by how often this text of the training has them",
    )
    group.add_argument(
        "--train-counts",
        metavar="FILE.json",
        help="with --train-target: keep its counts here, so that they are made once only",
    )
    group.add_argument(
        "--reference-trees",
        metavar="FILE.conllu",
        help="compute F1 of words by their part of speech and relation in these trees of the "
        "(first) reference; posattn-parse makes them",
    )
    group.add_argument(
        "--hypothesis-trees",
        nargs="+",
        default=[],
        metavar="FILE.conllu",
        help="read the same of the translation from these trees, a file for each run",
    )


def add_logs(group) -> None:
    """Add the options of logs and other files whose content goes into the JSON."""
    group.add_argument(
        "--generate-log",
        nargs="+",
        metavar="FILE",
        help="read the speed from logs of fairseq-generate, the shards of one run",
    )
    group.add_argument(
        "--parsing-log",
        nargs="+",
        metavar="FILE",
        help="read the same from a run that parsed while it translated",
    )
    group.add_argument(
        "--train-log",
        nargs="+",
        metavar="FILE",
        help="read the course of the training from logs of fairseq-train, of all its machines",
    )
    group.add_argument(
        "--examples", metavar="FILE", help="take over the examples that posattn-examples wrote"
    )
    group.add_argument(
        "--heads", metavar="FILE", help="take over what posattn-heads wrote about attention heads"
    )
