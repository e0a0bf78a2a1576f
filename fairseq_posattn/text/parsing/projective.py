"""Find the best projective trees, where scores depend on pairs of siblings.

Eisner's algorithm with the second-order parts of McDonald and Pereira (2006), and a score for the
end of the children on each side. Word 0 is an artificial root, which may have several children.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEFT, RIGHT = 0, 1
NAMES = ("between", "open_right", "open_left", "right", "left")
LEAST = -1e9  # the score of impossible parts


class Part(NamedTuple):
    """A step in the generation of a head's children on one side, the nearest first.

    sibling: the previous child, or the head itself before the first child. child: the next child,
    or the head itself after the last one.
    """

    head: int
    sibling: int
    child: int
    side: int


def parts_of(parents: Sequence[int]) -> list[Part]:
    """Return the parts of a tree; parents[0] is ignored, as word 0 is the artificial root."""
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in parents]
    for child, head in enumerate(parents):
        if child:
            sides[head][head < child].append(child)
    return [
        Part(head, sibling, child, side)
        for head, (left, right) in enumerate(sides)
        for side, places in ((LEFT, left[::-1]), (RIGHT, right))
        for sibling, child in zip([head, *places], [*places, head], strict=True)
    ]


def best_trees(children: np.ndarray, stops: np.ndarray, lengths: Sequence[int]) -> list[list[int]]:
    """Return the parents of all words in the best tree of each sentence; those of word 0 are 0.

    children: scores of the parts with a child, [sentence, head, sibling, child].
    stops: scores of the parts that end a side, [sentence, side, head, sibling].
    lengths: number of words of each sentence, including word 0.
    """
    chart = Chart(children, stops)
    return [chart.tree(number, length) for number, length in enumerate(lengths)]


class Chart:
    """The best scores of all spans of a batch of sentences.

    Spans from word i to word j are stored at [:, i, j]; equally wide spans are computed at once:

    right: head i with all its right children, down to j. left: the same for head j.
    open_right: head i with right children up to j, whose own right children are missing.
    between: the inner halves of the two siblings i and j.

    back: for each span, the last word of its left part, its sibling or its last child.
    """

    def __init__(self, children: np.ndarray, stops: np.ndarray):
        count, _, words, _ = stops.shape
        shape = count, words, words
        self.score = {name: np.full(shape, LEAST, np.float32) for name in NAMES}
        self.back = {name: np.zeros(shape, int) for name in NAMES}
        every = np.arange(words)
        self.score["left"][:, every, every] = stops[:, LEFT, every, every]
        self.score["right"][:, every, every] = stops[:, RIGHT, every, every]
        for width in range(1, words):
            self.fill(np.arange(words - width), width, children, stops)

    def fill(self, i: np.ndarray, width: int, children: np.ndarray, stops: np.ndarray) -> None:
        """Compute all spans of a width, given their first words."""
        between, open_right, open_left, right, left = self.score.values()
        j = i + width
        first, last = i[:, None], j[:, None]
        k = first + np.arange(width)  # from i to j - 1
        after, inner = k + 1, k[:, 1:]

        def best(name: str, scores: np.ndarray, first: np.ndarray) -> None:
            self.score[name][:, i, j] = scores.max(2)
            self.back[name][:, i, j] = first + scores.argmax(2)

        best("between", right[:, first, k] + left[:, after, last], i)
        # before the first child, the head's half contains only the head
        alone = left[:, i + 1, j][:, :, None]
        others = open_right[:, first, inner] + between[:, inner, last]
        best("open_right", children[:, first, k, last] + np.concatenate([alone, others], 2), i)
        alone = right[:, i, j - 1][:, :, None]
        others = between[:, first, inner] + open_left[:, inner, last]
        best(
            "open_left", children[:, last, after, first] + np.concatenate([others, alone], 2), i + 1
        )
        whole = right[:, after, last] + stops[:, RIGHT, first, after]
        best("right", open_right[:, first, after] + whole, i + 1)
        best("left", open_left[:, k, last] + left[:, first, k] + stops[:, LEFT, last, k], i)

    def tree(self, number: int, length: int) -> list[int]:
        """Return the parents of the words in the best tree of a sentence."""
        parents, spans = [0] * length, [("right", 0, length - 1)]
        while spans:
            name, i, j = spans.pop()
            if i == j:
                continue
            k = int(self.back[name][number, i, j])
            if name == "between":
                spans += [("right", i, k), ("left", k + 1, j)]
            elif name == "right":
                spans += [("open_right", i, k), ("right", k, j)]
            elif name == "left":
                spans += [("left", i, k), ("open_left", k, j)]
            elif name == "open_right":
                parents[j] = i
                spans += [("left", i + 1, j)] if k == i else [(name, i, k), ("between", k, j)]
            else:
                parents[i] = j
                spans += [("right", i, j - 1)] if k == j else [(name, k, j), ("between", i, k)]
        return parents


def projective(parents: Sequence[int]) -> list[int]:
    """Attach the words with crossing edges to the nearest ancestor that avoids crossings."""
    tree = list(parents)

    def below(word: int, head: int) -> bool:
        while word not in (head, 0):
            word = tree[word]
        return word == head

    def crossing() -> list[tuple[int, int]]:
        return [
            (abs(head - word), word)
            for word, head in enumerate(tree)
            if not all(below(k, head) for k in range(min(word, head) + 1, max(word, head)))
        ]

    while found := crossing():
        word = min(found)[1]  # the shortest edge
        tree[word] = tree[tree[word]]
    return tree
