"""Read words with their tags from CoNLL-U or from two columns.

A line of two columns holds a word and its tag, as PTB is often kept, and blank lines separate the
sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.conllu import COLUMNS, FORM, ConlluBlock, is_word, read_blocks

TAG_COLUMNS = {"upos": 3, "xpos": 4}
NO_TAG = "_"


@dataclass(slots=True)
class TaggedSentence:
    """A tagged sentence has words and their tags, with None for a word that has no tag (`_`).

    A word without a tag is read, but the model does not learn from it, and it is not counted.
    """

    words: list[str]
    tags: list[str | None]
    path: str
    line: int


def read_tagged(path: str | Path, column: str = "upos") -> Iterator[TaggedSentence]:
    """Yield the sentences of a file, which may be plain, .gz, .xz or .zst."""
    blocks = read_blocks(str(path))
    head = []
    for block in blocks:
        head.append(block)
        if not all(line.startswith("#") for line in block.lines):
            break
    parse = conllu_sentence if is_conllu(head) else two_columns
    for block in itertools.chain(head, blocks):
        sentence = parse(block, column)
        if sentence.words:
            yield sentence


def is_conllu(head: list[ConlluBlock]) -> bool:
    """Return whether a file is CoNLL-U, from its first sentences.

    These go on up to one with a line that is no comment. A file of two columns has no comments:
    '# #' is a word and its tag there.
    """
    lines = [line for block in head for line in block.lines]
    return any(line.count("\t") == COLUMNS - 1 for line in lines) or all(
        line.startswith("#") for line in lines
    )


def conllu_sentence(block: ConlluBlock, column: str) -> TaggedSentence:
    """Read a sentence of CoNLL-U; comments, multiword lines (3-4) and empty nodes are skipped."""
    words: list[str] = []
    tags: list[str | None] = []
    for number, line in enumerate(block.lines, start=block.line):
        if line[0] == "#":
            continue
        columns = line.split("\t")
        if is_word(columns, len(words) + 1, f"{block.path}:{number}"):
            words.append(checked(columns[FORM], block.path, number))
            tag = columns[TAG_COLUMNS[column]]
            tags.append(None if tag in (NO_TAG, "") else checked(tag, block.path, number))
    return TaggedSentence(words, tags, block.path, block.line)


def two_columns(block: ConlluBlock, column: str) -> TaggedSentence:
    """Read a sentence of two columns, which a tab or spaces separate."""
    words, tags = [], []
    for number, line in enumerate(block.lines, start=block.line):
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) != 2 or not all(columns):
            raise InputError(
                f"{block.path}:{number}: a word and its tag are expected, but this line has "
                f"{len(columns)} columns; write two columns in all lines, or the ten of CoNLL-U"
            )
        words.append(checked(columns[0], block.path, number))
        tags.append(None if columns[1] == NO_TAG else checked(columns[1], block.path, number))
    return TaggedSentence(words, tags, block.path, block.line)


def checked(text: str, path: str, number: int) -> str:
    """Return a word or a tag, or refuse one that a line of a dictionary cannot hold."""
    if "\r" in text:
        raise InputError(
            f"{path}:{number}: '{text}' has a carriage return inside; remove it with tr -d '\\r'"
        )
    return text
