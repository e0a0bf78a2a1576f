"""Read and write probing tasks in the format of SentEval.

Each line has tab-separated columns. The first column is the split (tr, va or te), the second is the
label, and the last is the sentence, with words separated by spaces. Other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.probing.results import ProbedTask
from fairseq_posattn.lab.probing.tasks import ProbingTask

SPLITS = ("tr", "va", "te")
NAMES = {"tr": "train", "va": "dev", "te": "test"}


class Example(NamedTuple):
    """A labelled sentence of a split (tr, va or te)."""

    split: str
    label: str
    words: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_examples(path: str | Path) -> Iterator[Example]:
    """Yield the examples in a file; raise an InputError for a malformed line."""
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.rstrip().split("\t")
        if len(columns) < 3:
            raise InputError(
                f"{path}:{number}: the line has {len(columns)} column(s); write a split, a label "
                "and a sentence, separated by tabs"
            )
        if columns[0] not in SPLITS:
            raise InputError(f"{path}:{number}: the split is '{columns[0]}'; write tr, va or te")
        words = columns[-1].split()
        if not words:
            raise InputError(f"{path}:{number}: the line has no sentence; remove it")
        if not columns[1]:
            raise InputError(f"{path}:{number}: the line has no label; write it after the split")
        yield Example(columns[0], columns[1], words)
    if not number:
        raise InputError(f"{path} is empty; use a folder with complete files of probing tasks")


def write_examples(file: TextIO, examples: Iterable[Example]) -> None:
    for example in examples:
        file.write(f"{example.split}\t{example.label}\t{example.text}\n")


@dataclass
class LabelledTask:
    """A task with its sentences and labels."""

    task: ProbingTask
    path: Path
    source: str
    examples: list[Example] = field(repr=False)

    @cached_property
    def labels(self) -> dict[str, int]:
        """The index of each label.

        Raises InputError if dev or test contains labels that do not occur in train.
        """
        names = sorted({example.label for example in self.examples if example.split == "tr"})
        for number, example in enumerate(self.examples, start=1):
            if example.label not in names:
                raise InputError(
                    f"{self.path}:{number}: the label '{example.label}' does not occur in train; "
                    "make the file again, or remove the line"
                )
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def places(self) -> dict[str, np.ndarray]:
        """The indices of each split's examples.

        Raises InputError if a split is empty.
        """
        found = {
            split: np.array([k for k, e in enumerate(self.examples) if e.split == split], dtype=int)
            for split in SPLITS
        }
        if missing := [split for split, places in found.items() if not len(places)]:
            raise InputError(
                f"{self.path}: {NAMES[missing[0]]} ({missing[0]}) contains no sentences; make the "
                "file again"
            )
        return found

    @cached_property
    def numbers(self) -> np.ndarray:
        return np.array([self.labels[example.label] for example in self.examples])

    @cached_property
    def described(self) -> ProbedTask:
        train, dev, test = (self.numbers[self.places[split]] for split in SPLITS)
        majority = np.bincount(train).argmax()
        return ProbedTask(
            train=len(train),
            dev=len(dev),
            test=len(test),
            classes=len(self.labels),
            majority=100 * float((test == majority).mean()),
            sha256=sha256(self.path),
            source=self.source,
        )
