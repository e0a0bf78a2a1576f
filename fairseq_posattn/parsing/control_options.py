"""Define the options of control trees for the command lines of two commands."""

from __future__ import annotations

import argparse

from fairseq_posattn.io.argument_types import positive, share
from fairseq_posattn.trees.control import CONTROLS, TreeControl


def add_control_options(group) -> None:
    """Add the options that say which trees the sentences get instead of their own."""
    add = group.add_argument
    add(
        "--control",
        choices=CONTROLS,
        default="own",
        help="give each sentence its own tree (default), a chain in which each word is a child of "
        "the word before it, the reversed chain, a flat tree below the first word, a random tree, "
        "or its own tree with its nodes shuffled over the words",
    )
    add(
        "--flip",
        type=share,
        default=0.0,
        metavar="RATE",
        help="attach this share of the words to other words, chosen by chance (default: "
        "%(default)s)",
    )
    add(
        "--control-seed",
        type=positive,
        default=1,
        help="choose by chance with this seed; a sentence has the same tree wherever it occurs "
        "(default: %(default)s)",
    )


def control_of(options: argparse.Namespace) -> TreeControl:
    """Return the control that the options describe."""
    return TreeControl(options.control, options.flip, options.control_seed)
