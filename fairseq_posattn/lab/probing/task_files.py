"""Read and write files of probing tasks in the format of SentEval.

Each line has, separated by tabs, the split (tr, va or te), the label, and in its last column the
words of the sentence with spaces between them. Columns in between are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines

SPLITS = ("tr", "va", "te")
NAMES = {"tr": "train", "va": "dev", "te": "test"}


class Example(NamedTuple):
    """An example is a sentence with its label, in a split."""

    split: str
    label: str
    words: list[str]

    @property
    def text(self) -> str:
        """Return the sentence with spaces between its words."""
        return " ".join(self.words)


def read_examples(path: str | Path) -> Iterator[Example]:
    """Yield the examples of a file; a line that is none is refused."""
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.rstrip().split("\t")
        if len(columns) < 3:
            raise InputError(
                f"{path}:{number}: the line has {len(columns)} column(s), but it needs a split, a "
                "label and a sentence, with tabs between them"
            )
        if columns[0] not in SPLITS:
            raise InputError(
                f"{path}:{number}: the split is '{columns[0]}'; it must be tr, va or te"
            )
        words = columns[-1].split()
        if not words:
            raise InputError(f"{path}:{number}: the line has no sentence; remove it")
        if not columns[1]:
            raise InputError(f"{path}:{number}: the line has no label; write it after the split")
        yield Example(columns[0], columns[1], words)
    if not number:
        raise InputError(f"{path}: the file is empty; name a folder with files of probing tasks")


def write_examples(file: TextIO, examples: Iterable[Example]) -> None:
    """Write examples, a line for each."""
    for example in examples:
        file.write(f"{example.split}\t{example.label}\t{example.text}\n")
