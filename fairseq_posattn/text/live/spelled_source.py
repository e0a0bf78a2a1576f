"""Find the trees of binarised data that have none, while their sentences are read.

Binarised data store pieces only, so the lines are rebuilt from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairseq_posattn.text.live.records import WantedLabels, records_of
from fairseq_posattn.text.live.segmented import SegmentedLine, spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence


class SpelledSource:
    """This class gives binarised sentences the trees that `find` makes from the spelled lines."""

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
