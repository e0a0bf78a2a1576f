"""Compute drawings of trees: text indented by depth, or arcs above a row of words.

All pictures with arcs draw the shapes of `TreeLayout`.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import copysign
from typing import NamedTuple

from fairseq_posattn.files.terminal import visible
from fairseq_posattn.trees.sentence import numbered

LETTER, LABEL_LETTER = 8.0, 6.2  # widths of letters, slightly more than most fonts need
GAP, STEP, SIDE = 16, 6, 10  # spaces between words, between starts of arcs, at the edges
RADIUS = 13  # of the corners of an arc
LEVEL, LABELLED_LEVEL = 20, 27  # heights of a level of arcs, without and with labels
ROOT = 38  # height above the arcs, for the root's arrow and its label
WORDS, DEPTHS, BOTTOM = 19, 40, 48  # below the arcs: baselines of words and depths, lower edge
Point = tuple[str, float, float]  # x and y after the letter that precedes them in an SVG path


def depths(parents: Sequence[int]) -> list[int]:
    """Return the depth of each word, which is the number of edges to the root."""
    found: dict[int, int] = {0: -1}
    for word in range(1, len(parents) + 1):
        path = []
        while word not in found:
            path.append(word)
            word = parents[word - 1]
        for step, below in enumerate(reversed(path), start=found[word] + 1):
            found[below] = step
    return [found[word] for word in range(1, len(parents) + 1)]


def drawn(words: Sequence[str], parents: Sequence[int]) -> Iterator[str]:
    """Yield one line per word: its depth, a tab, and the word indented by its depth."""
    for word, depth in zip(words, depths(parents), strict=True):
        yield f"{depth}\t{'  ' * depth}{visible(word)}"


@dataclass(frozen=True)
class Arc:
    """An arc from a parent to a child.

    Words are numbered from 0. The lowest arcs have level 1.
    """

    parent: int
    child: int
    level: int

    @property
    def span(self) -> tuple[int, int]:
        return min(self.parent, self.child), max(self.parent, self.child)


def arcs_of(parents: Sequence[int]) -> list[Arc]:
    """Return the arcs of all words except the root, sorted from shortest to longest."""
    arcs: list[Arc] = []
    pairs = [(parent - 1, child) for child, parent in enumerate(parents) if parent]
    for parent, child in sorted(pairs, key=lambda pair: (abs(pair[0] - pair[1]), min(pair))):
        first, last = min(parent, child), max(parent, child)
        below = [a.level for a in arcs if a.span[0] < last and first < a.span[1]]
        arcs.append(Arc(parent, child, 1 + max(below, default=0)))
    return arcs


def width_of(text: str, letter: float) -> float:
    """Estimate the width of a drawn text; East Asian characters are counted as wide."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return letter * (len(text) + 0.9 * wide)


class Shape(NamedTuple):
    """A line, an arrowhead, or a text (word, depth or relation).

    points: a path. A text is centred at its only point, which is on the baseline.
    """

    kind: str
    points: Sequence[Point]
    text: str | None = None


class TreeLayout:
    """The shapes of a row of words with arcs from parents to children, in pixels of an SVG element.

    If the spans of two arcs overlap, the longer arc is drawn above the shorter one, on a higher
    level. An arc starts next to the centre of its parent. Longer arcs start closer to the centre,
    so that the arcs of a projective tree do not cross.
    """

    def __init__(
        self, words: Sequence[str], parents: Sequence[int], relations: Sequence[str] | None = None
    ):
        """Compute the layout.

        relations: the label of the arc to each word, or None if the arcs have no labels.
        """
        self.words, self.relations = words, relations or [""] * len(words)
        self.depths = depths(parents)
        self.roots = [word for word, parent in enumerate(parents) if not parent]
        self.arcs = arcs_of(parents)
        self.offsets = self.starts_beside_middles()
        self.places = self.middles()
        self.level = LABELLED_LEVEL if relations else LEVEL
        self.feet = ROOT + self.level * max((arc.level for arc in self.arcs), default=0)
        self.width = self.places[-1] + max(width_of(words[-1], LETTER) / 2, 30) + SIDE
        self.height = self.feet + BOTTOM

    def groups(self) -> Iterator[tuple[tuple[int, int] | None, list[Shape]]]:
        """Yield the parent and child of each edge with its shapes, then None with the other texts.

        Words are numbered from 1, and the parent of the root is 0.
        """
        feet = self.feet
        for root in self.roots:
            x = self.places[root]
            label = Shape("relation", [("M", x, 10)], self.relations[root] or "root")
            yield (0, root + 1), [*self.arrow(x, ("M", x, 14)), label]
        for arc in self.arcs:
            start, end = self.ends(arc)
            top = feet - self.level * arc.level
            side, turn = top + RADIUS, copysign(RADIUS, end - start)
            up = ("M", start, feet), ("L", start, side), ("Q", start, top), (" ", start + turn, top)
            down = ("L", end - turn, top), ("Q", end, top), (" ", end, side)
            shapes = self.arrow(end, *up, *down)
            if name := self.relations[arc.child]:
                shapes.append(Shape("relation", [("M", (start + end) / 2, top + 3.5)], name))
            yield (arc.parent + 1, arc.child + 1), shapes
        for x, word, depth in zip(self.places, self.words, self.depths, strict=True):
            yield None, [Shape("word", [("M", x, feet + WORDS)], word)]
            yield None, [Shape("depth", [("M", x, feet + DEPTHS)], str(depth))]

    def arrow(self, x: float, *line: Point) -> list[Shape]:
        """Return a line, continued down to an arrow head at `x`, and this head."""
        y = self.feet
        head = [("M", x, y), ("L", x - 3.6, y - 7.5), ("Q", x, y - 5.9), (" ", x + 3.6, y - 7.5)]
        return [Shape("line", [*line, ("L", x, y - 5)]), Shape("head", head)]

    def ends(self, arc: Arc) -> tuple[float, float]:
        return self.places[arc.parent] + self.offsets[arc], self.places[arc.child]

    def starts_beside_middles(self) -> dict[Arc, int]:
        """Return the offset of each arc's start from the centre of its parent."""
        found: dict[Arc, int] = {}
        for side in (-1, 1):
            count: dict[int, int] = {}
            for arc in sorted(self.arcs, key=lambda arc: -arc.level):
                if (arc.child > arc.parent) == (side > 0):
                    count[arc.parent] = count.get(arc.parent, 0) + 1
                    found[arc] = side * STEP * count[arc.parent]
        return found

    def middles(self) -> list[float]:
        """Return the x coordinates of the words' centres, with space for words, arcs and labels."""
        halves = [max(width_of(word, LETTER), LETTER) / 2 for word in self.words]
        for arc, offset in self.offsets.items():
            halves[arc.parent] = max(halves[arc.parent], abs(offset) + 2)
        places = [SIDE + halves[0]]
        for left, right in pairwise(range(len(self.words))):
            place = places[left] + halves[left] + GAP + halves[right]
            for arc in self.arcs:
                if arc.span[1] == right:
                    label = width_of(self.relations[arc.child], LABEL_LETTER)
                    start = places[arc.span[0]] + abs(self.offsets[arc])
                    place = max(place, start + label + 2 * RADIUS)
            places.append(place)
        return places


def words_of_tree(tokens: Sequence[str], words_of_token: Sequence[int] | None) -> list[str]:
    """Return a name for each word; the words of a multiword token are numbered: im/1, im/2."""
    if words_of_token is None:
        return list(tokens)
    pairs = zip(tokens, words_of_token, strict=True)
    return [name for token, count in pairs for name in numbered(token, count)]


def words_by_counts(pieces: Sequence[str], counts: Sequence[int], marks: str) -> list[str]:
    """Join pieces into words, given the number of pieces of each word.

    A word without pieces becomes `·`. `marks` is a prefix or suffix that is removed from each
    piece.
    """
    rest = (piece.removeprefix(marks).removesuffix(marks) for piece in pieces)
    return ["".join(islice(rest, count)) or "·" for count in counts]


def number_of_words(parents: Sequence[int], counts: Sequence[int]) -> int:
    """Return the number of words in a zero-padded tree.

    Words without pieces are also counted: unlike padding, they have a parent or are the parent of
    another word.
    """
    seen = [k for k, pair in enumerate(zip(parents, counts, strict=True), start=1) if any(pair)]
    return max([0, *seen, *parents])
