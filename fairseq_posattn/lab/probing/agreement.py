"""Measure how often attention heads attend to parents, children and neighbours (Clark et al. 2019).

Attention between pieces is converted to attention between words: weights are summed over the pieces
of the attended word and averaged over the pieces of the attending word. A word is counted as
attending only to the other word that receives its largest weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.lab.inspection.heads import looked_at, of_words
from fairseq_posattn.lab.probing.results import HeadLooks, PlaceOffset, RelationHead
from fairseq_posattn.lab.probing.words import WordTree

Counts = NDArray[np.int64]  # layers x heads
PLACES = ("parent", "child", "previous", "next")
PARENT, CHILD = "parent", "child"


@dataclass
class Looks:
    """Counts for one relation in one direction, from child to parent or from parent to child.

    hits: for each head, the number of words whose largest weight is on the correct word.
    offsets: how often the correct word occurs at each offset from the attending word.
    """

    hits: Counts
    words: int = 0
    offsets: Counter[int] = field(default_factory=Counter)


@dataclass
class Agreement:
    """Counts of the words that attention heads attend to.

    hits: for each of PLACES and each head, the number of words whose largest weight is on it.
    words: for each of PLACES, the number of words that have such a parent, child or neighbour.
    relations: the counts by direction and relation.
    offsets: how often parents and children occur at each offset, such as -1 (the previous word).
    """

    hits: dict[str, Counts] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    relations: dict[tuple[str, str], Looks] = field(default_factory=dict)
    offsets: dict[str, Counter[int]] = field(default_factory=dict)

    def add(self, pieces: NDArray[np.float64], counts: list[int], tree: WordTree) -> None:
        """Add the counts of a sentence.

        pieces: the attention weights, of shape (layers, heads, queries, keys).
        counts: the number of pieces of each word.
        """
        if len(tree) < 2:
            return
        looked = looked_at(of_words(pieces, [count for count in counts if count]))
        places = np.arange(len(tree))
        parents = tree.parents
        dependents = np.flatnonzero(parents >= 0)
        with_child = np.unique(parents[dependents])
        self.count(PARENT, looked == parents, dependents)
        self.count(CHILD, parents[looked] == places, with_child)
        self.count("previous", looked == places - 1, places[1:])
        self.count("next", looked == places + 1, places[:-1])
        for word in dependents.tolist():
            parent, name = int(parents[word]), tree.relations[word]
            self.offsets.setdefault(PARENT, Counter())[parent - word] += 1
            self.offsets.setdefault(CHILD, Counter())[word - parent] += 1
            self.look(PARENT, name, looked[..., word] == parent, parent - word)
            self.look(CHILD, name, looked[..., parent] == word, word - parent)

    def count(self, place: str, right: NDArray[np.bool_], words: NDArray[np.int64]) -> None:
        found = right[..., words].sum(axis=-1)
        self.hits[place] = self.hits.get(place, 0) + found
        self.words[place] += len(words)

    def look(self, direction: str, relation: str, right: NDArray[np.bool_], offset: int) -> None:
        if (direction, relation) not in self.relations:
            self.relations[direction, relation] = Looks(np.zeros(right.shape, dtype=np.int64))
        looks = self.relations[direction, relation]
        looks.hits += right
        looks.words += 1
        looks.offsets[offset] += 1

    def shares(self, layer: int, head: int) -> dict[str, float]:
        """Return, for each of PLACES, the percentage of words whose largest weight is on it.

        Words without it are not counted, such as the root, which has no parent.
        """
        return {
            place: 100 * float(self.hits[place][layer, head]) / max(1, self.words[place])
            for place in PLACES
        }

    @property
    def shape(self) -> tuple[int, int]:
        layers, heads = self.hits[PARENT].shape
        return layers, heads


def best_heads(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[RelationHead]:
    """Yield the best head for each relation, starting with the most frequent relation.

    Head and offset are chosen on dev and evaluated on test.

    about: the fields of OfModel.
    """
    ordered = sorted(test.relations.items(), key=lambda item: (-item[1].words, item[0]))
    for place, looks in ordered:
        before = dev.relations.get(place)
        if before is None:
            continue
        layer, head = map(int, np.unravel_index(before.hits.argmax(), before.hits.shape))
        offset = commonest(before.offsets)
        yield RelationHead(
            **about,
            direction=place[0],
            relation=place[1],
            words=looks.words,
            layer=layer,
            head=head,
            accuracy=100 * float(looks.hits[layer, head]) / looks.words,
            of_heads=(100 * looks.hits / looks.words).tolist(),
            offset=offset,
            offset_accuracy=100 * looks.offsets[offset] / looks.words,
        )


def looks(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[HeadLooks]:
    for layer, head in np.ndindex(test.shape):
        shares: dict[str, Any] = test.shares(layer, head)
        on_dev = dev.shares(layer, head)
        yield HeadLooks(**about, layer=layer, head=head, **shares, dev=on_dev)


def best_offsets(dev: Agreement, test: Agreement, about: dict[str, Any]) -> Iterator[PlaceOffset]:
    for place in (PARENT, CHILD):
        if place in dev.offsets and place in test.offsets:
            offset = commonest(dev.offsets[place])
            share = 100 * test.offsets[place][offset] / max(1, test.words[place])
            yield PlaceOffset(**about, place=place, offset=offset, share=share)


def commonest(offsets: Counter[int]) -> int:
    """Return the most frequent offset; ties go to the smallest distance, then to the right."""
    return max(offsets, key=lambda n: (offsets[n], -abs(n), n))
