"""Read tagged sentences from CoNLL-U, or from files with two columns.

In the two-column format, which is common for the Penn Treebank (PTB), each line contains a word and
its tag. Blank lines separate sentences.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import one_of, option
from fairseq_posattn.trees.conllu import COLUMNS, FORM, ConlluBlock, is_word, read_blocks

TAG_COLUMNS = {"upos": 3, "xpos": 4}
NO_TAG = "_"


@dataclass(slots=True)
class TaggedSentence:
    """A sentence of words with tags; a tag is None if it is `_` in the file.

    A word without a tag is part of the input, but is ignored in training and evaluation.
    """

    words: list[str]
    tags: list[str | None]
    path: str
    line: int


def read_tagged(path: str | Path, column: str = "upos") -> Iterator[TaggedSentence]:
    """Yield the sentences of a file, which may be compressed as .gz, .xz or .zst."""
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
    """Return whether a file is CoNLL-U.

    head: the blocks of the file up to the first block with a non-comment line. A file with two
        columns has no comments: the line '# #' contains a word and its tag.
    """
    lines = [line for block in head for line in block.lines]
    return any(line.count("\t") == COLUMNS - 1 for line in lines) or all(
        line.startswith("#") for line in lines
    )


def conllu_sentence(block: ConlluBlock, column: str) -> TaggedSentence:
    """Read a CoNLL-U sentence, without comments, multiword tokens or empty nodes."""
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
    """Read a sentence from two columns, separated by a tab or by spaces."""
    words, tags = [], []
    for number, line in enumerate(block.lines, start=block.line):
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) != 2 or not all(columns):
            raise InputError(
                f"{block.path}:{number}: expected a word and its tag, found '{line[:40]}'; "
                "write two columns in all lines, or the ten of CoNLL-U"
            )
        words.append(checked(columns[0], block.path, number))
        tags.append(None if columns[1] == NO_TAG else checked(columns[1], block.path, number))
    return TaggedSentence(words, tags, block.path, block.line)


def checked(text: str, path: str, number: int) -> str:
    """Return a word or tag; raise an InputError if it contains a carriage return."""
    if "\r" in text:
        raise InputError(
            f"{path}:{number}: '{text}' contains a carriage return; remove it with tr -d '\\r'"
        )
    return text


FILE = "in CoNLL-U or with two columns (word and tag)"


@dataclass(frozen=True, kw_only=True)
class TaggingData:
    """Options of posattn binarize-tagging."""

    command: ClassVar = "posattn binarize-tagging"
    train: str = option(f"train on this file, {FILE}", metavar="FILE", required=True)
    valid: str = option(f"validate on this file, {FILE}", metavar="FILE", required=True)
    test: list[str] = option(
        "test on these files, which become the splits test, test1 and so on",
        [],
        metavar="FILE",
        nargs="*",
    )
    destdir: str = option("write the data to this new folder", metavar="FOLDER", required=True)
    column: str = option(
        "read the tags from this column of CoNLL-U (default: upos)", "upos", one_of(*TAG_COLUMNS)
    )
    words: str = option(
        "keep this many of the most frequent words, as a number or as a share of all distinct "
        "words (default: 50%%)",
        "50%",
    )
    words_from_train: bool = option("count words in --train only, instead of in all files", False)
    max_words: int = option("cut longer sentences into parts of this many words (default: 60)", 60)
    max_chars: int = option("truncate longer words to this many characters (default: 20)", 20)
    overwrite: bool = option("replace DESTDIR if it exists already", False)
