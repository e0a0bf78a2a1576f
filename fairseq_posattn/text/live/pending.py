"""Keep the trees of new text while fairseq passes its sentences from hook to hook.

fairseq knows nothing of trees. It passes lines to the task, asks it for a dataset of their pieces,
and translates the batches of that dataset. The trees of the lines wait here in between, and become
the records of a batch.
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
