"""Parse with a probabilistic dependency grammar that is estimated from a treebank.

The children of a word are generated one after the other on each side, the nearest first. The
probability of a child depends on the word, the previous child, and the opener of the word's phrase
(`that` opens a clause, `on` a prepositional phrase), but neither on the depth of the phrase nor on
its position in the sentence. So a noun can have the same modifiers as a subject or as an object, at
any depth. The best projective tree is found by dynamic programming.

A phrase may also consist of its opener alone, such as `to` in `Who did Emma give the cake to`.
Punctuation is attached to the root.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from math import log
from typing import NamedTuple

from fairseq_posattn.trees.sentence import Sentence

FUNCTION = {"det", "case", "mark", "aux", "punct"}
NOMINAL = {"nsubj", "obj", "iobj", "obl", "nmod"}
NOUN, VERB = "<noun>", "<verb>"
LEFT, RIGHT = 0, 1
LESS = 3  # ratio of the weights of a context and the next less specific one
ALONE = 0.001  # probability of a phrase that consists of its opener alone


class Phrase(NamedTuple):
    """The type of a word's phrase. kind: NOUN, VERB, or the function word itself; opener: label and
    word of the first child, if it is a function word other than an article."""

    kind: str
    opener: tuple[str, str] | None = None


class Child(NamedTuple):
    label: str
    phrase: Phrase


class Step(NamedTuple):
    """A possible next child of a word. child: what the child after it is conditioned on."""

    phrase: Phrase
    label: str
    child: Child
    score: float


FIRST = STOP = None  # before the first and after the last child
Ends = tuple[int, int]  # first and last word of a part of a sentence


class Grammar:
    """A grammar estimated from trees; unknown words are treated as nouns."""

    def __init__(self, trees: Iterable[Sentence]):
        trees = list(trees)
        self.kinds, self.punctuation = kinds_of(trees)
        self.phrases: dict[str, dict[Phrase, None]] = defaultdict(dict)
        self.roots: Counter[Phrase] = Counter()
        self.counts: dict[tuple, Counter[Child | None]] = defaultdict(Counter)
        for tree in trees:
            self.count(tree)
        self.steps = cache(self._steps)

    def kind(self, word: str) -> str:
        return self.kinds.get(word) or self.kinds.get(word.lower()) or NOUN

    def count(self, tree: Sentence) -> None:
        """Count the children of each word of a tree."""
        kinds, children = [self.kind(word) for word in tree.words], children_of(tree)
        phrases = []
        for k, (left, _) in enumerate(children):
            opener = opener_of(tree.relations[left[-1]], kinds[left[-1]]) if left else None
            phrases.append(Phrase(kinds[k], opener))
            self.phrases[kinds[k]][phrases[k]] = None
        self.roots[phrases[tree.parents.index(0)]] += 1
        for k, sides in enumerate(children):
            for side, places in enumerate(sides):
                before = FIRST
                taken = [Child(tree.relations[place], phrases[place]) for place in places]
                for child in [*taken, STOP]:
                    for context in contexts(tree.words[k], phrases[k]):
                        self.counts[context, side, before][child] += 1
                    before = child

    def _steps(self, word: str, phrase: Phrase, side: int, before: Child | None):
        """Return the log-probability that no child follows, or None, and the possible children."""
        shares: dict[Child | None, float] = defaultdict(float)
        for closeness, context in enumerate(contexts(word, phrase)):
            counts = self.counts.get((context, side, before), {})
            for child, count in counts.items():
                shares[child] += LESS**-closeness * count / sum(counts.values())
        stop = shares.pop(STOP, None)
        steps = []
        for child, share in shares.items():
            steps.append(Step(child.phrase, child.label, child, log(share)))
            if opener := child.phrase.opener:
                label, opens = opener
                steps.append(Step(Phrase(opens), label, child, log(ALONE * share)))
        return stop and log(stop), steps

    def parse(self, words: list[str]) -> Sentence:
        """Return the best tree of a sentence, or a flat tree if the grammar finds none."""
        inside = [k for k, word in enumerate(words) if word not in self.punctuation]
        edges = Chart(self, [words[k] for k in inside]).best()
        if not edges:
            return Sentence(words).flat("the grammar has no tree")
        root = inside[next(k for k, (head, _) in edges.items() if head < 0)]
        parents, relations = [root + 1] * len(words), ["punct"] * len(words)
        for k, (head, label) in edges.items():
            parents[inside[k]] = 0 if head < 0 else inside[head] + 1
            relations[inside[k]] = label
        return Sentence(words, parents, relations=relations)


def kinds_of(trees: list[Sentence]) -> tuple[dict[str, str], set[str]]:
    """Return the kind of each word, and the words that are punctuation."""
    labels: dict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for word, relation in zip(tree.words, tree.relations, strict=True):
            label = relation.partition(":")[0]
            labels[word.lower() if label in FUNCTION else word].add(label)
    kinds = {
        word: word if used & FUNCTION else NOUN if used & NOMINAL else VERB
        for word, used in labels.items()
    }
    return kinds, {word for word, used in labels.items() if used == {"punct"}}


def contexts(word: str, phrase: Phrase) -> Iterator[tuple]:
    """Yield the contexts in which children are counted, the most specific first."""
    yield from ((word, phrase), (word, phrase.kind), (phrase,), (phrase.kind,))


def children_of(tree: Sentence) -> list[tuple[list[int], list[int]]]:
    """Return the left and right children of each word, the nearest first, without punctuation."""
    children: list[tuple[list[int], list[int]]] = [([], []) for _ in tree.words]
    for k, (parent, label) in enumerate(zip(tree.parents, tree.relations, strict=True)):
        if parent and label != "punct":
            children[parent - 1][k >= parent].append(k)
    return [(left[::-1], right) for left, right in children]


class Chart:
    """The best phrase of each type for each span of a sentence.

    Right children are attached before left ones. growing: incomplete phrases by side and span, then
    by head, phrase type and last child. whole: complete phrases by span and type.
    """

    def __init__(self, grammar: Grammar, words: list[str]):
        self.grammar, self.words = grammar, words
        self.growing: list[dict[Ends, dict]] = [defaultdict(dict), defaultdict(dict)]
        self.whole: dict[Ends, dict] = defaultdict(dict)
        for length in range(len(words)):
            for first in range(len(words) - length):
                self.fill(first, first + length)

    def fill(self, first: int, last: int) -> None:
        """Find all phrases of the span from word `first` to word `last`."""
        ends, (left, right) = (first, last), self.growing
        if first == last:
            for phrase in self.grammar.phrases[self.grammar.kind(self.words[first])]:
                right[ends][first, phrase, FIRST] = (0.0, None)
        for middle in range(first, last):
            one, other = (first, middle), (middle + 1, last)
            self.grow(RIGHT, ends, one, other)
            self.grow(LEFT, ends, other, one)
        for (head, phrase, child), (score, _) in right[ends].items():
            stop, _ = self.grammar.steps(self.words[head], phrase, RIGHT, child)
            if stop is not None:
                better(left[ends], (head, phrase, FIRST), score + stop, child)
        for (head, phrase, child), (score, _) in left[ends].items():
            stop, _ = self.grammar.steps(self.words[head], phrase, LEFT, child)
            opener = opener_of(child.label, child.phrase.kind) if child else None
            if stop is not None and opener == phrase.opener:
                better(self.whole[ends], phrase, score + stop, (head, child))

    def grow(self, side: int, ends: Ends, near: Ends, far: Ends) -> None:
        """Attach complete phrases of the span `far` to incomplete ones of the span `near`."""
        if not (whole := self.whole.get(far)):
            return
        for (head, phrase, before), (score, _) in self.growing[side].get(near, {}).items():
            for step in self.grammar.steps(self.words[head], phrase, side, before)[1]:
                if step.phrase in whole:
                    together = score + step.score + whole[step.phrase][0]
                    key, how = (head, phrase, step.child), (near, far, before, step)
                    better(self.growing[side][ends], key, together, how)

    def best(self) -> dict[int, tuple[int, str]]:
        """Return head and label of each word in the best tree; the root's head is -1."""
        ends, roots = (0, len(self.words) - 1), self.grammar.roots
        found = [
            (score + log(roots[p]), p) for p, (score, _) in self.whole[ends].items() if roots[p]
        ]
        edges: dict[int, tuple[int, str]] = {}
        if found:
            self.read(ends, max(found, key=lambda pair: pair[0])[1], -1, "root", edges)
        return edges

    def read(self, ends: Ends, phrase: Phrase, parent: int, label: str, edges: dict) -> None:
        """Add the edges of a complete phrase to `edges`."""
        head, child = self.whole[ends][phrase][1]
        edges[head] = (parent, label)
        for side in (LEFT, RIGHT):
            while child is not FIRST:
                ends, far, child, step = self.growing[side][ends][head, phrase, child][1]
                self.read(far, step.phrase, head, step.label, edges)
            if side == LEFT:
                child = self.growing[LEFT][ends][head, phrase, FIRST][1]


def opener_of(label: str, kind: str) -> tuple[str, str] | None:
    """Return the opener of a phrase whose first child has this label and kind."""
    return None if kind in (NOUN, VERB) or label == "det" else (label, kind)


def better(found: dict, key: object, score: float, how: object) -> None:
    """Store a derivation if its score is the best for this key."""
    if key not in found or found[key][0] < score:
        found[key] = (score, how)
