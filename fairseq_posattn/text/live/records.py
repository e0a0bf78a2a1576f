"""Make the records of a batch from lines and the trees that were found for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.text.live.segmented import SegmentedLine, spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence, TreeError, batch
from fairseq_posattn.trees.labels import Labels, labels_of

COLUMNS = {"relations": "DEPREL", "tags": "UPOS"}


class Numbering(Protocol):
    """A numbering gives each label its number; the dictionaries of the data do."""

    def numbers(self, labels: Labels) -> batch.Numbers:
        """Return the numbers of the relations and of the parts of speech of a sentence."""


class WantedLabels(NamedTuple):
    """These labels are wanted by the models: how they are numbered, and which kinds are read."""

    numbering: Numbering
    kinds: Collection[str]


def records_of(
    lines: Sequence[SegmentedLine], trees: Sequence[Sentence], wanted: WantedLabels | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return records of the words of the lines, and the number of words of each line."""
    pairs = list(zip(lines, trees, strict=True))
    projected = [line.project(sentence) for line, sentence in pairs]
    if wanted is None:
        return batch.pack(projected)
    for line, sentence in pairs:
        refuse_unlabelled(line, sentence, wanted.kinds)
    numbers = [wanted.numbering.numbers(labels_of(sentence)) for sentence in trees]
    return batch.pack(projected, numbers)


def refuse_unlabelled(line: SegmentedLine, sentence: Sentence, kinds: Collection[str]) -> None:
    """Refuse a tree that lacks the labels which the model reads."""
    for kind, name in (("relations", "relations"), ("tags", "parts of speech")):
        if kind in kinds and sentence.words and getattr(sentence, kind) is None:
            place = f"{sentence.where}: " if sentence.path else ""
            raise TreeError(
                f"{place}the tree of '{line.text}' has no {name}, which the model reads; give them "
                f"in the column {COLUMNS[kind]} of --tree-file or in Parsed(..., {kind}=[...]), "
                "or count them as unknown with --missing-tree flat"
            )


class SpelledSource:
    """This class gives binarised sentences the trees that `find` makes from the spelled lines.

    Binarised data store pieces only, so the lines are rebuilt from them.
    """

    def __init__(
        self,
        source: Sequence,
        dictionary: Any,
        separator: str,
        find: Callable[[list[SegmentedLine]], list[Sentence]],
        labels: WantedLabels | None = None,
    ):
        self.source = source
        self.dictionary = dictionary
        self.separator = separator
        self.find = find
        self.labels = labels

    def __len__(self) -> int:
        return len(self.source)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return records of the words of the sentences, and the number of words of each."""
        lines = [self.line(int(k)) for k in sentences]
        return records_of(lines, self.find(lines), self.labels)

    def line(self, sentence: int) -> SegmentedLine:
        """Return the line that the pieces of a sentence spell."""
        numbers = [n for n in self.source[sentence].tolist() if n != self.dictionary.pad()]
        pieces = [self.dictionary[number] for number in numbers[:-1]]
        if pieces and self.separator != SPACE:  # --truncate-source may have cut off the last word
            pieces[-1] = pieces[-1].removesuffix(self.separator)
        return spelled(" ".join(pieces), self.separator)
