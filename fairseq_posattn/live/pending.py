"""The trees of new text while fairseq carries its sentences from hook to hook.

fairseq knows nothing of trees. It hands lines over, asks for a dataset of their pieces, and
translates the batches of that dataset. What belongs to the lines waits here in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_posattn.live.segmented import SegmentedLine
from fairseq_posattn.trees import Sentence, TreeError, batch


class CollatedBatch(NamedTuple):
    """A batch as it was made: its pieces, the tensor of its trees, and its sentences, each with its
    number among all new lines."""

    tokens: Tensor  # B T
    source_tree: Tensor  # 2 B W
    sentences: list[tuple[int, Sentence]]


class NewTrees:
    """The trees of new lines, and the batches of these that were not translated yet.

    `find` gives the trees of some of the lines, when a batch asks for them. The number of the first
    line among all new ones is `first`.
    """

    def __init__(self, lines: Sequence[SegmentedLine], find: Callable[[list[int]], list[Sentence]]):
        self.lines = lines
        self.find = find
        self.first = 0
        self.batches: deque[CollatedBatch] = deque()
        self.found: dict[int, Sentence] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records of all words of the sentences, one after the other, and words per sentence."""
        asked = sentences.tolist()
        self.found.update(zip(asked, self.find(asked), strict=True))
        return batch.pack([self.lines[k].project(self.found[k]) for k in asked])

    def add_batch(self, collated: dict) -> None:
        """Remember a batch that fairseq made of the lines, by the numbers in its `id`."""
        fields = collated["net_input"]
        numbers = sorted(collated["id"].tolist())
        sentences = [(self.first + k, self.found[k]) for k in numbers]
        self.batches.append(CollatedBatch(fields["src_tokens"], fields["source_tree"], sentences))


class PendingTrees:
    """The trees of the lines that are translated next: `expect` them when the lines come in,
    `attach` them to the dataset of these lines, and take them `for_batch` after batch."""

    def __init__(self) -> None:
        self.lines = 0  # that came in so far
        self.expected: NewTrees | None = None
        self.attached: NewTrees | None = None

    def expect(self, trees: NewTrees) -> None:
        """Lines came in, and these are their trees."""
        trees.first = self.lines
        self.lines += len(trees)
        self.expected = trees

    def attach(self, sentences: int) -> NewTrees:
        """The trees of the lines that came in last, of which fairseq makes a dataset now.

        fairseq keeps their order, and the dataset's samples bear their numbers as `id`.
        """
        trees, self.expected = self.expected, None
        if trees is None or len(trees) != sentences:
            raise TreeError("sentences without trees: give them to new_sentences() first")
        self.attached = trees
        return trees

    def for_batch(self, tokens: Tensor) -> CollatedBatch:
        """The trees of the batch that is translated now: those of the next one that was made.

        fairseq-interactive keeps of a batch its pieces alone, and the order of the batches. A
        program of one's own may translate another batch, which would get the trees of this one.
        """
        batches = self.attached.batches if self.attached is not None else ()
        if not batches or not is_same(tokens, batches[0].tokens):
            raise TreeError(
                "a batch without trees: it is not the next one of those that were made of the "
                "lines given to new_sentences(); translate the batches in their order, or keep "
                "net_input['source_tree'] in them"
            )
        return batches.popleft()


def is_same(tokens: Tensor, made: Tensor) -> bool:
    """Whether these are the pieces of the batch that was made: the same tensor on the CPU, where
    nothing need be compared, or its copy on an accelerator."""
    return tokens is made or torch.equal(tokens.to(made.device), made)
