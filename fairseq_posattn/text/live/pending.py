"""Store the trees of new text between calls of fairseq.

fairseq does not handle trees. It passes lines to the task, requests a dataset of their pieces, and
translates the batches of that dataset. This module stores the trees of the lines until the
batches are created.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairseq_posattn.text.live.segmented import SegmentedLine, spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence, TreeError, batch
from fairseq_posattn.trees.sentence import Labels, labels_of

COLUMNS = {"relations": "DEPREL", "tags": "UPOS"}


class Numbering(Protocol):
    """Converts labels to indices in the label dictionaries of the data."""

    def numbers(self, labels: Labels) -> batch.Numbers:
        """Return the indices of a sentence's relations and parts of speech."""


class WantedLabels(NamedTuple):
    """The kinds of labels that the models read, and their conversion to indices."""

    numbering: Numbering
    kinds: Collection[str]


def records_of(
    lines: Sequence[SegmentedLine], trees: Sequence[Sentence], wanted: WantedLabels | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return one record per word (see `batch.pack`), and the number of words in each line."""
    pairs = list(zip(lines, trees, strict=True))
    projected = [line.project(sentence) for line, sentence in pairs]
    if wanted is None:
        return batch.pack(projected)
    for line, sentence in pairs:
        refuse_unlabelled(line, sentence, wanted.kinds)
    numbers = [wanted.numbering.numbers(labels_of(sentence)) for sentence in trees]
    return batch.pack(projected, numbers)


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


class CollatedBatch(NamedTuple):
    """A batch of new text: its pieces, its tree tensor, and its sentences with line numbers."""

    tokens: Tensor  # B T
    source_tree: Tensor  # 2 B W, or 4 B W with labels
    sentences: list[tuple[int, Sentence]]


class NewTrees:
    """The trees of new lines, and the batches of these lines that have not been translated yet.

    find: a function that returns the trees of the lines with the given indices; it is called when a
        batch needs them.
    labels: the labels that a model reads, if any.
    found: trees that are already known, by line number.
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
        """Return the concatenated word records of sentences, and the length of each sentence."""
        asked = sentences.tolist()
        if lacking := [k for k in asked if k not in self.found]:
            self.found.update(zip(lacking, self.find(lacking), strict=True))
        lines, trees = [self.lines[k] for k in asked], [self.found[k] for k in asked]
        return records_of(lines, trees, self.labels)

    def add_batch(self, collated: dict) -> None:
        """Queue a batch that fairseq made from the lines whose numbers are in `id`."""
        fields = collated["net_input"]
        numbers = sorted(collated["id"].tolist())
        sentences = [(self.first + k, self.found[k]) for k in numbers]
        self.batches.append(CollatedBatch(fields["src_tokens"], fields["source_tree"], sentences))


class PendingTrees:
    """Passes the trees of new lines to the batches of these lines.

    Call `expect` when new lines arrive, `attach` when fairseq makes a dataset from them, and
    `for_batch` for each batch to translate.
    """

    def __init__(self) -> None:
        self.lines = 0  # the number of lines so far
        self.expected: NewTrees | None = None
        self.attached: NewTrees | None = None

    def expect(self, trees: NewTrees) -> None:
        """Store the trees of new lines."""
        trees.first = self.lines
        self.lines += len(trees)
        self.expected = trees

    def attach(self, sentences: int) -> NewTrees:
        """Return the trees of the lines from which fairseq is making a dataset.

        fairseq does not reorder these lines, and uses their numbers as the `id` of samples.
        """
        trees, self.expected = self.expected, None
        if trees is None or len(trees) != sentences:
            raise TreeError("the sentences have no trees; pass them to new_sentences() first")
        self.attached = trees
        return trees

    def for_batch(self, tokens: Tensor) -> CollatedBatch:
        """Return the trees of a batch, which must be the next one in the order of creation.

        fairseq-interactive translates the batches in order, but identifies them only by their
        pieces. These are compared, so that no batch can get the trees of another one.
        """
        batches = self.attached.batches if self.attached is not None else ()
        if not batches or not is_same(tokens, batches[0].tokens):
            raise TreeError(
                "this batch has no trees, because it is not the next batch of the lines passed to "
                "new_sentences(); translate the batches in order, or do not remove "
                "net_input['source_tree'] from them"
            )
        return batches.popleft()


def is_same(tokens: Tensor, made: Tensor) -> bool:
    """Return whether both tensors are the same batch.

    On a CPU they are the same object, so their contents are not compared. On an accelerator, one of
    them is a copy.
    """
    return tokens is made or torch.equal(tokens.to(made.device), made)
