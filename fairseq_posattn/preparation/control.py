"""Give the sentences of a treebank other trees, and leave the rest of their lines as it is."""

from __future__ import annotations

import argparse

from fairseq_posattn.io.argument_types import positive, share
from fairseq_posattn.io.atomic import replaced_whole
from fairseq_posattn.io.files import open_to_write
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.trees.conllu import DEPREL, HEAD, ConlluBlock, parse_all_columns, read_blocks
from fairseq_posattn.trees.control import CONTROLS, TreeControl

DEPS = 8  # enhanced dependencies, which would contradict the new tree


def control_treebank(
    treebank: str, out: str, control: TreeControl, several_roots: str = "error"
) -> None:
    """Write the treebank with the trees that the control gives its sentences."""
    sentences = 0
    with replaced_whole(out) as partial, open_to_write(partial) as file:
        for block in progress(read_blocks(treebank)):
            lines = controlled(block, control, several_roots)
            file.write(("\n".join(lines) + "\n\n").encode())
            sentences += 1
    say(f"{out}: {sentences:,} sentences were written with the control '{control.tag}'")


def controlled(block: ConlluBlock, control: TreeControl, several_roots: str) -> list[str]:
    """Return the lines of a sentence with its control tree."""
    sentence = control.of(parse_all_columns(block, several_roots))
    if sentence.parents is None:
        return block.lines
    tree = iter(zip(sentence.parents, sentence.relations or [], strict=True))
    lines = []
    for line in block.lines:
        columns = line.split("\t")
        if columns[0].isdigit():
            parent, columns[DEPREL] = next(tree)
            columns[HEAD], columns[DEPS] = str(parent), "_"
        lines.append("\t".join(columns))
    return lines


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
