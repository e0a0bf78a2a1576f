"""Give the sentences of a treebank other trees, and leave the rest of their lines as it is."""

from __future__ import annotations

from fairseq_posattn.io.atomic import replaced_whole
from fairseq_posattn.io.files import open_to_write
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.trees.conllu import DEPREL, HEAD, ConlluBlock, parse_all_columns, read_blocks
from fairseq_posattn.trees.control import TreeControl

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
