"""Translate some sentences of binarised data, and write them with their trees and attention maps.

posattn-examples DATA --path checkpoint_best.pt --sentences 0 5 17 --out examples.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_posattn.io.argument_types import add_model_options, command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json
from fairseq_posattn.lab.scoring.attention_export import examples
from fairseq_posattn.lab.scoring.loaded_model import load


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = command_parser("posattn-examples", __doc__)
    parser.add_argument("data", metavar="DATA", help="translate sentences of these binarised data")
    parser.add_argument(
        "--path", type=Path, required=True, help="translate with the model in this checkpoint"
    )
    parser.add_argument(
        "--sentences",
        type=int,
        nargs="+",
        required=True,
        metavar="NUMBER",
        help="choose sentences by their numbers, counted from 0 as in fairseq-generate's S-NUMBER",
    )
    add_model_options(parser)
    parser.add_argument("--task", help="take this task of fairseq (default: that of the training)")
    parser.add_argument(
        "--gen-subset",
        default="test",
        metavar="NAME",
        help="choose the subset of the data (default: %(default)s)",
    )
    parser.add_argument(
        "--beam", type=int, default=5, help="set the size of the beam (default: %(default)s)"
    )
    parser.add_argument(
        "--lenpen",
        type=float,
        default=1.0,
        help="set the length penalty of fairseq-generate (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("examples.json"),
        help="write the examples to this file (default: %(default)s)",
    )
    parser.add_argument(
        "--references",
        metavar="FILE",
        help="read references from here, a line for each sentence (default: the targets of the "
        "data)",
    )
    parser.add_argument(
        "--trees",
        metavar="CONLLU",
        help="read words and relations from here, a tree for each sentence",
    )
    return parser.parse_args()


def main() -> None:
    """Translate the sentences and write the examples."""
    options = parse_options()
    loaded = load(options.path, options.data, options.user_dir, options.task, options.cpu)
    found = examples(
        loaded,
        options.data,
        options.sentences,
        subset=options.gen_subset,
        beam=options.beam,
        lenpen=options.lenpen,
        trees=options.trees,
        references=options.references,
    )
    write_json(options.out, found, ensure_ascii=False, indent=1)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
