"""Translate some sentences of binarised data; write them with their trees and attention maps.

posattn-examples DATA --path checkpoint_best.pt --sentences 0 5 17 --out examples.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_posattn.evaluation.attention_export import examples
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-examples", __doc__)
    parser.add_argument("data", metavar="DATA", help="binarised data, with trees where there are")
    parser.add_argument("--path", type=Path, required=True, help="checkpoint")
    parser.add_argument(
        "--sentences",
        type=int,
        nargs="+",
        required=True,
        metavar="NUMBER",
        help="from 0, as in fairseq-generate's S-NUMBER",
    )
    parser.add_argument("--gen-subset", default="test")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--lenpen", type=float, default=1.0, help="as fairseq-generate's")
    parser.add_argument("--out", type=Path, default=Path("examples.json"))
    parser.add_argument(
        "--references", metavar="FILE", help="a line a sentence; default: the targets of the data"
    )
    parser.add_argument(
        "--trees", metavar="CONLLU", help="words and relations from here; a tree a sentence"
    )
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    write_json(options.out, examples(options), ensure_ascii=False, indent=1)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
