"""Keep the trees of new text while fairseq passes its sentences from hook to hook.

fairseq knows nothing of trees. It passes lines to the task, asks it for a dataset of their pieces,
and translates the batches of that dataset. The trees of the lines wait here in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_posattn.text.live.records import WantedLabels, records_of
from fairseq_posattn.text.live.segmented import SegmentedLine
from fairseq_posattn.trees import Sentence, TreeError


class CollatedBatch(NamedTuple):
    """This is a batch as it was made: its pieces, the tensor of its trees, and its sentences.

    Each sentence stands after its number among all new lines.
    """

    tokens: Tensor  # B T
    source_tree: Tensor  # 2 B W, or 4 B W with labels
    sentences: list[tuple[int, Sentence]]


class NewTrees:
    """This class keeps the trees of new lines, and their batches that were not translated yet.

    find: returns the trees of some of the lines, when a batch asks for them.
    labels: the labels that a model reads, if it reads any.
    found: the trees of some lines that were found before, by the lines' numbers.
    first: the number of the first line among all new lines.
    """

    def __init__(
        self,
        lines: Sequence[SegmentedLine],
        find: Callable[[list[int]], list[Sentence]],
        labels: WantedLabels | None = None,
        found: dict[int, Sentence] | None = None,
    ):
        self.lines = lines
        self.find = find
        self.labels = labels
        self.first = 0
        self.batches: deque[CollatedBatch] = deque()
        self.found = found or {}

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return records of the words of the sentences, and the number of words of each."""
        asked = sentences.tolist()
        if lacking := [k for k in asked if k not in self.found]:
            self.found.update(zip(lacking, self.find(lacking), strict=True))
        lines, trees = [self.lines[k] for k in asked], [self.found[k] for k in asked]
        return records_of(lines, trees, self.labels)

    def add_batch(self, collated: dict) -> None:
        """Remember a batch that fairseq made of the lines whose numbers are in its `id`."""
        fields = collated["net_input"]
        numbers = sorted(collated["id"].tolist())
        sentences = [(self.first + k, self.found[k]) for k in numbers]
        self.batches.append(CollatedBatch(fields["src_tokens"], fields["source_tree"], sentences))


class PendingTrees:
    """This class passes the trees of new lines on to the batches that are made of the lines.

    Call `expect` when lines come in, `attach` when fairseq makes a dataset of them, and `for_batch`
    for each batch that is translated.
    """

    def __init__(self) -> None:
        self.lines = 0  # this many lines have come in
        self.expected: NewTrees | None = None
        self.attached: NewTrees | None = None

    def expect(self, trees: NewTrees) -> None:
        """Take the trees of lines that have just come in."""
        trees.first = self.lines
        self.lines += len(trees)
        self.expected = trees

    def attach(self, sentences: int) -> NewTrees:
        """Return the trees of the lines that came in last, of which fairseq makes a dataset now.

        fairseq keeps their order, and the dataset's samples bear their numbers as `id`.
        """
        trees, self.expected = self.expected, None
        if trees is None or len(trees) != sentences:
            raise TreeError("the sentences have no trees; give them to new_sentences() first")
        self.attached = trees
        return trees

    def for_batch(self, tokens: Tensor) -> CollatedBatch:
        """Return the trees of the batch that is translated now: the next one that was made.

        fairseq-interactive keeps only the pieces of a batch, and the order of the batches. Another
        program may translate other batches, which must not get the trees of this one.
        """
        batches = self.attached.batches if self.attached is not None else ()
        if not batches or not is_same(tokens, batches[0].tokens):
            raise TreeError(
                "this batch has no trees, because it is not the next one of those that were made "
                "of the lines given to new_sentences(); translate the batches in their order, or "
                "keep net_input['source_tree'] in them"
            )
        return batches.popleft()


def is_same(tokens: Tensor, made: Tensor) -> bool:
    """Return whether these are the pieces of the batch that was made.

    On the CPU it is the same tensor, so nothing is compared; on an accelerator it is a copy.
    """
    return tokens is made or torch.equal(tokens.to(made.device), made)
