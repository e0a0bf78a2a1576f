"""Measure how often attention heads attend to parents, children and neighbours (Clark et al. 2019).

Attention between pieces is converted to attention between words: weights are summed over the pieces
of the attended word and averaged over the pieces of the attending word. A word is counted as
attending only to the other word that receives its largest weight.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.inspection.heads import looked_at, of_words
from fairseq_posattn.probing.results import HeadAgreement, PlaceOffset, RelationHead
from fairseq_posattn.probing.words import WordTree

PLACES = ("parent", "child", "previous", "next")
PARENT, CHILD = "parent", "child"
ALL = ""  # in place of a relation


@dataclass
class AttentionCounts:
    """Counts of the words that should attend to a parent, child or neighbour.

    hits: for each layer and head, the number of words whose largest weight is on the correct word.
    words: the number of words that have such a parent, child or neighbour.
    offsets: how often the correct word occurs at each offset, such as -1 (the previous word).
    """

    hits: NDArray[np.int64] = field(default_factory=lambda: np.zeros((), dtype=np.int64))
    words: int = 0
    offsets: Counter[int] = field(default_factory=Counter)

    def add(self, right: NDArray[np.bool_]) -> None:
        """Add words, given for each head and word whether the head attends to the correct word."""
        self.hits = self.hits + right.sum(axis=-1)
        self.words += right.shape[-1]

    def shares(self) -> NDArray[np.float64]:
        """Return the percentage of words whose largest weight is on the correct word."""
        found: NDArray[np.float64] = 100 * self.hits / max(1, self.words)
        return found

    def best_offset(self) -> int:
        """Return the most frequent offset; ties go to the smallest distance, then to the right."""
        return max(self.offsets, key=lambda n: (self.offsets[n], -abs(n), n))


class Agreement(defaultdict[tuple[str, str], AttentionCounts]):
    """The counts by place (one of PLACES) and relation, which is ALL for all words together.

    Relations are counted only for parents and children: from each word with a relation to its
    parent, and from the parent to the word.
    """

    def __init__(self) -> None:
        super().__init__(AttentionCounts)

    def add(self, pieces: NDArray[np.float64], counts: list[int], tree: WordTree) -> None:
        """Add the counts of a sentence.

        pieces: the attention weights, of shape (layers, heads, queries, keys).
        counts: the number of pieces of each word.
        """
        if len(tree) < 2:
            return
        looked = looked_at(of_words(pieces, [count for count in counts if count]))
        places, parents = np.arange(len(tree)), tree.parents
        words = np.flatnonzero(parents >= 0)
        self[PARENT, ALL].add((looked == parents)[..., words])
        self[CHILD, ALL].add((parents[looked] == places)[..., np.unique(parents[words])])
        self["previous", ALL].add((looked == places - 1)[..., 1:])
        self["next", ALL].add((looked == places + 1)[..., :-1])
        for word, parent in zip(words.tolist(), parents[words].tolist(), strict=True):
            for place, here, there in ((PARENT, word, parent), (CHILD, parent, word)):
                of_relation = self[place, tree.relations[word]]
                of_relation.add((looked[..., here] == there)[..., None])
                for agreed in (of_relation, self[place, ALL]):
                    agreed.offsets[there - here] += 1


def best_heads(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[RelationHead]:
    """Yield the best head for each relation, starting with the most frequent relation.

    Head and offset are chosen on dev and evaluated on test.

    about: the fields of OfModel.
    """
    for place, counts in sorted(test.items(), key=lambda item: (-item[1].words, item[0])):
        if place[1] == ALL or place not in dev:
            continue
        hits, offset = dev[place].hits, dev[place].best_offset()
        layer, head = map(int, np.unravel_index(hits.argmax(), hits.shape))
        shares = counts.shares()
        yield RelationHead(
            **about,
            direction=place[0],
            relation=place[1],
            words=counts.words,
            layer=layer,
            head=head,
            accuracy=float(shares[layer, head]),
            of_heads=shares.tolist(),
            offset=offset,
            offset_accuracy=100 * counts.offsets[offset] / counts.words,
        )


def head_agreement(
    dev: Agreement, test: Agreement, about: dict[str, Any]
) -> Iterator[HeadAgreement]:
    """Yield what each head attends to."""
    on_dev, on_test = ({p: part[p, ALL].shares() for p in PLACES} for part in (dev, test))
    for at in np.ndindex(on_test[PARENT].shape):
        of_head: list[Any] = [{p: float(part[p][at]) for p in PLACES} for part in (on_dev, on_test)]
        yield HeadAgreement(**about, layer=at[0], head=at[1], **of_head[1], dev=of_head[0])


def best_offsets(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[PlaceOffset]:
    """Yield the best fixed offset to parents and to children."""
    for place in (PARENT, CHILD):
        before, after = dev[place, ALL], test[place, ALL]
        if before.offsets and after.offsets:
            offset = before.best_offset()
            share = 100 * after.offsets[offset] / max(1, after.words)
            yield PlaceOffset(**about, place=place, offset=offset, share=share)
