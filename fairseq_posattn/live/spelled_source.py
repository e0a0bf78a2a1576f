"""Binarised data without trees, whose sentences get trees while they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairseq_posattn.live.segmented import SegmentedLine, spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence, batch


class SpelledSource:
    """The trees of binarised sentences, which `find` makes from the lines that the pieces spell."""

    def __init__(
        self,
        source: Sequence,
        dictionary: Any,
        separator: str,
        find: Callable[[list[SegmentedLine]], list[Sentence]],
    ):
        self.source = source
        self.dictionary = dictionary
        self.separator = separator
        self.find = find

    def __len__(self) -> int:
        return len(self.source)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records of all words of the sentences, one after the other, and words per sentence."""
        lines = [self.line(int(k)) for k in sentences]
        found = zip(lines, self.find(lines), strict=True)
        return batch.pack([line.project(sentence) for line, sentence in found])

    def line(self, sentence: int) -> SegmentedLine:
        """The line that the pieces of a sentence spell."""
        numbers = [n for n in self.source[sentence].tolist() if n != self.dictionary.pad()]
        pieces = [self.dictionary[number] for number in numbers[:-1]]
        if pieces and self.separator != SPACE:  # its word may be cut off by --truncate-source
            pieces[-1] = pieces[-1].removesuffix(self.separator)
        return spelled(" ".join(pieces), self.separator)
