"""This option says whether the labels of words keep the subtypes of relations."""

from __future__ import annotations

import argparse

SUBTYPES = ("cut", "keep")


def add_label_subtypes(group: argparse._ActionsContainer) -> None:
    """Add the option --label-subtypes to a parser or a group."""
    group.add_argument(
        "--label-subtypes",
        choices=SUBTYPES,
        default="cut",
        help="keep the subtypes of relations such as acl:relcl, or cut them off (default); "
        "dictionaries of labels beside --srcdict decide it by themselves",
    )
