"""Translate some sentences of binarised data, and write them with their trees and attention maps.

posattn-examples DATA --path checkpoint_best.pt --sentences 0 5 17 --out examples.json
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairseq_posattn.io.argument_types import add_fields, chosen, command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json
from fairseq_posattn.lab.scoring.attention_export import ExampleRequest, examples


def main() -> None:
    """Translate the sentences and write the examples."""
    parser = command_parser("posattn-examples", __doc__)
    add_fields(parser, ExampleRequest)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("examples.json"),
        help="write the examples to this file (default: %(default)s)",
    )
    options = parser.parse_args()
    found = examples(chosen(ExampleRequest, options))
    write_json(options.out, found, ensure_ascii=False, indent=1)


command = partial(run, main)
if __name__ == "__main__":
    command()
