"""Extract words, parents and labels from CoNLL-U, or replace trees by control trees."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from fairseq_posattn.io.atomic import replaced_whole, written_together
from fairseq_posattn.io.files import open_to_write
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.trees.conllu import (
    DEPREL,
    HEAD,
    ConlluBlock,
    parse_all_columns,
    read_blocks,
    read_labelled,
)
from fairseq_posattn.trees.control import TreeControl
from fairseq_posattn.trees.lines import NO_TREE, labels_line, parents_line, words_line
from fairseq_posattn.trees.sentence import labels_of

DEPS = 8  # the column of enhanced dependencies, which are removed from control trees


@dataclass
class Extracted:
    """How many sentences and words were extracted, and how many sentences have no tree."""

    sentences: int = 0
    words: int = 0
    without_tree: int = 0


def extract(
    treebanks: Sequence[str], out: str, several_roots: str = "error", tokens: bool = False
) -> Extracted:
    """Write the sentences of all treebanks to `out`.words, .parents and .labels.

    tokens: write the tokens of the text (im) instead of the words of the tree (in, dem).
    """
    found = Extracted()
    files = [f"{out}.{kind}" for kind in ("words", "parents", "labels")]
    with written_together(files) as (words, parents, labels):
        for sentence in progress(
            chain.from_iterable(read_labelled(path, several_roots) for path in treebanks)
        ):
            forms, counts = sentence.words, None
            if tokens:
                forms, counts = sentence.tokens, sentence.words_of_token
            words.write(words_line(forms) + "\n")
            parents.write(parents_line(sentence.parents, counts) + "\n")
            has_none = sentence.parents is None
            labels.write((NO_TREE if has_none else labels_line(labels_of(sentence))) + "\n")
            found.sentences += 1
            found.words += len(sentence.words)
            found.without_tree += has_none
    return found


def control_treebank(
    treebank: str, out: str, control: TreeControl, several_roots: str = "error"
) -> None:
    """Write a copy of a treebank with control trees."""
    sentences = 0
    with replaced_whole(out) as partial, open_to_write(partial) as file:
        for block in progress(read_blocks(treebank)):
            lines = controlled(block, control, several_roots)
            file.write(("\n".join(lines) + "\n\n").encode())
            sentences += 1
    say(f"{out}: wrote {sentences:,} sentences with trees of the control '{control.tag}'")


def controlled(block: ConlluBlock, control: TreeControl, several_roots: str) -> list[str]:
    """Return the CoNLL-U lines of a sentence with its control tree."""
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
