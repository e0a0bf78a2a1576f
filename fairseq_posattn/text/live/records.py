"""Make the records of a batch from lines and the trees that were found for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from fairseq_posattn.text.live.segmented import SegmentedLine
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
