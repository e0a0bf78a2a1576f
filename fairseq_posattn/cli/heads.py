"""Describe each attention head of a model over a test set, and what its mechanisms have learnt.

posattn-heads DATA --path checkpoint_best.pt --trees test.conllu.xz --out heads.json

The entropy of a head, how far it looks, and how often it looks along the edges of the trees go into
the report by posattn-score --heads.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_posattn.io.argument_types import add_model_options, command_parser, positive
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.records import as_document


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = command_parser("posattn-heads", __doc__)
    add = parser.add_argument
    add("data", metavar="DATA", help="read the sentences of these binarised data")
    add("--path", type=Path, required=True, help="load the model of this checkpoint")
    add_model_options(parser)
    add("--task", help="take this task of fairseq (default: that of the training)")
    add(
        "--gen-subset",
        default="test",
        metavar="NAME",
        help="choose the subset of the data (default: %(default)s)",
    )
    add("--first", type=positive, metavar="N", help="read only the first N sentences")
    add(
        "--trees",
        metavar="CONLLU",
        help="compare with these trees, one for each sentence (default: those beside the data)",
    )
    add(
        "--out",
        type=Path,
        default=Path("heads.json"),
        help="write the figures to this file (default: %(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    """Describe the heads, and write the file."""
    options = parse_options()
    from fairseq_posattn.lab.scoring.loaded_model import load
    from fairseq_posattn.lab.scoring.measured_heads import heads

    loaded = load(options.path, options.data, options.user_dir, options.task, options.cpu)
    found = heads(loaded, options.gen_subset, options.first, options.trees)
    write_json(options.out, as_document(found), indent=1)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
