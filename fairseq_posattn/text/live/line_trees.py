"""Provide the trees of new and of binarised sentences when fairseq creates batches."""

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.live.segmented import SegmentedLine, spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence, TreeError, store_format
from fairseq_posattn.trees.sentence import Labels, labels_of

PARSED_TOGETHER = 32  # minimum number of lines per request, because small requests are slow
COLUMNS = {"relations": "DEPREL", "tags": "UPOS"}


class Numbering(Protocol):
    """Converts labels to indices in the label dictionaries of the data."""

    def numbers(self, labels: Labels) -> store_format.Numbers:
        """Return the indices of a sentence's relations and parts of speech."""


class WantedLabels(NamedTuple):
    """The kinds of labels that the models read, and their conversion to indices."""

    numbering: Numbering
    kinds: Collection[str]


def records_of(
    lines: Sequence[SegmentedLine], trees: Sequence[Sentence], wanted: WantedLabels | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a record per word (see `store_format.pack`), and the number of words of each line."""
    pairs = list(zip(lines, trees, strict=True))
    projected = [line.project(sentence) for line, sentence in pairs]
    if wanted is None:
        return store_format.pack(projected)
    for line, sentence in pairs:
        refuse_unlabelled(line, sentence, wanted.kinds)
    numbers = [wanted.numbering.numbers(labels_of(sentence)) for sentence in trees]
    return store_format.pack(projected, numbers)


def refuse_unlabelled(line: SegmentedLine, sentence: Sentence, kinds: Collection[str]) -> None:
    """Raise a TreeError if a tree lacks labels that the model reads."""
    for kind, name in (("relations", "relations"), ("tags", "parts of speech")):
        if kind in kinds and sentence.words and getattr(sentence, kind) is None:
            place = f"{sentence.where}: " if sentence.path else ""
            raise TreeError(
                f"{place}the tree of '{line.text}' has no {name}, which the model reads; give them "
                f"in column {COLUMNS[kind]} of --tree-file or in Parsed(..., {kind}=[...]), or "
                "treat them as unknown with --missing-tree flat"
            )


class SpelledSource:
    """Provides the trees of binarised sentences; `find` determines them from the text.

    Binarised data contain only pieces, so the text is reconstructed from them.
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
        """Return the concatenated word records of sentences, and the length of each sentence."""
        lines = [self.line(int(k)) for k in sentences]
        return records_of(lines, self.find(lines), self.labels)

    def line(self, sentence: int) -> SegmentedLine:
        """Return the line that is reconstructed from a sentence's pieces."""
        numbers = [n for n in self.source[sentence].tolist() if n != self.dictionary.pad()]
        pieces = [self.dictionary[number] for number in numbers[:-1]]
        if pieces and self.separator != SPACE:  # --truncate-source may have cut the last word
            pieces[-1] = pieces[-1].removesuffix(self.separator)
        return spelled(" ".join(pieces), self.separator)


class NewTrees:
    """The trees of new lines, which are determined when a batch of the lines is created.

    find: a function that returns the trees of the lines with the given indices.
    labels: the labels that a model reads, if any.
    found: the trees that are known already, by line number.
    """

    def __init__(
        self,
        lines: Sequence[SegmentedLine],
        find: Callable[[list[int]], list[Sentence]],
        labels: WantedLabels | None = None,
    ):
        self.lines = lines
        self.find = find
        self.labels = labels
        self.found: dict[int, Sentence] = {}
        self.by_length = sorted(range(len(lines)), key=lambda k: len(lines[k].pieces))

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated word records of sentences, and the length of each sentence."""
        asked = sentences.tolist()
        if lacking := [k for k in asked if k not in self.found]:
            self.find_trees(lacking)
        lines, trees = [self.lines[k] for k in asked], [self.found[k] for k in asked]
        return records_of(lines, trees, self.labels)

    def find_trees(self, lacking: list[int]) -> None:
        """Determine the trees of lines; add lines of later batches if there are only a few."""
        others = (k for k in self.by_length if k not in self.found and k not in lacking)
        asked = [*lacking, *islice(others, max(0, PARSED_TOGETHER - len(lacking)))]
        try:
            found = self.find(asked)
        except InputError:  # perhaps due to one of the other lines, which fairseq may skip
            if asked == lacking:
                raise
            asked, found = lacking, self.find(lacking)
        self.found.update(zip(asked, found, strict=True))
