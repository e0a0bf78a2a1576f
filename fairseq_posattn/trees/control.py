"""Control trees, which contain less syntactic information than the parsed tree, or none.

A model may benefit from any tree, because even a chain of words encodes relative positions.
Therefore, only a gain over a model trained with control trees can be attributed to syntax.

| Control | The tree of a sentence |
|---|---|
| own | the parsed tree, unchanged |
| chain | the parent of each word is the previous word; the first word is the root |
| reversed | the parent of each word is the next word; the last word is the root |
| flat | the first word is the root and the parent of all other words |
| random | drawn uniformly from all trees over the words of the sentence |
| shuffled | the parsed tree, with the words randomly permuted over its nodes |

If `flip` is positive, each word is then reattached to a random other word with this probability.
The random generator is seeded with a hash of the sentence, so identical sentences always get the
same control tree.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import at_least, between, one_of, option
from fairseq_posattn.trees.checks import flat_tree
from fairseq_posattn.trees.sentence import Sentence, escape_whitespace

FIXED: dict[str, Callable[[int], list[int]]] = {  # trees that depend only on the number of words
    "chain": lambda size: list(range(size)),
    "reversed": lambda size: [*range(2, size + 1), 0],
    "flat": flat_tree,
}
OF_WORDS = (*FIXED, "random")  # controls that need no parsed trees
OF_TREES = ("own", "shuffled")
CONTROLS = (*OF_TREES, *OF_WORDS)
TAG = re.compile(rf"({'|'.join(CONTROLS)})(?:-flip(0\.[0-9]+|1\.0))?(?:-seed([0-9]+))?")


@dataclass(frozen=True)
class TreeControl:
    """Computes a control tree for each sentence.

        control = TreeControl.from_tag("chain-flip0.25-seed2")

    kind: the type of control tree, one of CONTROLS.
    flip: probability, from 0 to 1, of reattaching a word to another word.
    seed: random seed, which is combined with the tokens of the sentence.
    """

    kind: str = option(
        "replace each tree by a control tree: own (default, no change), chain (each word is a "
        "child of the previous one), reversed (of the next one), flat (all words are children of "
        "the first), random, or shuffled (words permuted over the nodes)",
        "own",
        one_of(*CONTROLS),
        flag="--control",
    )
    flip: float = option(
        "reattach this fraction of the words to random other words (default: %(default)s)",
        0.0,
        between(0.0, 1.0),
        metavar="RATE",
    )
    seed: int = option(
        "random seed; equal sentences get equal control trees (default: %(default)s)",
        1,
        at_least(1),
        flag="--control-seed",
    )

    def __post_init__(self) -> None:
        if 0 < self.flip < 1e-20:  # file names contain its digits, and their length is limited
            raise InputError(
                f"--flip {self.flip:g} is too small to change any tree; use 0, or at least 1e-20"
            )

    def __bool__(self) -> bool:
        """Return whether the control changes any tree."""
        return self.kind != "own" or self.flip > 0

    @property
    def needs_trees(self) -> bool:
        return self.kind in OF_TREES

    @property
    def tag(self) -> str:
        """Return the control as a string for file names and options, as in chain-flip0.25-seed2."""
        rate = f"{Decimal(repr(float(self.flip))):f}"  # not in scientific notation
        flip = f"-flip{rate}" if self.flip else ""
        seed = f"-seed{self.seed}" if self.seed != 1 else ""
        return f"{self.kind}{flip}{seed}"

    @classmethod
    def from_tag(cls, tag: str) -> TreeControl:
        found = TAG.fullmatch(tag)
        if not found:
            raise InputError(
                f"'{tag}' is not a kind of control tree; use one of {', '.join(CONTROLS)}, "
                "optionally with flip and seed, as in chain-flip0.25-seed2"
            )
        kind, flip, seed = found.groups(default="")
        return cls(kind, float(flip or 0), int(seed or 1))

    def of(self, sentence: Sentence) -> Sentence:
        if not self or (self.needs_trees and sentence.parents is None):
            return sentence
        if not sentence.words:
            return replace(sentence, parents=[], relations=[])
        dice = Dice(str(self.seed), *map(escape_whitespace, sentence.tokens))
        parents, relations = self.tree(sentence, dice)
        parents, relations = flipped(parents, relations, self.flip, dice)
        return replace(sentence, parents=parents, relations=relations)

    def tree(self, sentence: Sentence, dice: Dice) -> tuple[list[int], list[str]]:
        """Return the parents and relations of the control tree before `flip` is applied."""
        own, size = list(sentence.parents or ()), len(sentence.words)
        relations = sentence.relations or ["_"] * size
        if self.kind == "own":
            return own, relations
        if self.kind == "shuffled":
            return shuffled(own, relations, dice.permutation(size))
        parents = random_tree(size, dice) if self.kind == "random" else FIXED[self.kind](size)
        return parents, ["dep" if parent else "root" for parent in parents]


class Dice:
    """A random number generator that is seeded with a hash of strings.

    Its output is the same on all machines and in all versions of Python.
    """

    def __init__(self, *text: str):
        self.key = hashlib.sha256("\n".join(text).encode()).digest()
        self.throws = 0

    def below(self, bound: int) -> int:
        self.throws += 1
        thrown = hashlib.blake2b(str(self.throws).encode(), key=self.key, digest_size=8).digest()
        return int.from_bytes(thrown, "big") % bound

    def happens(self, probability: float) -> bool:
        return self.below(2**53) < probability * 2**53

    def permutation(self, size: int) -> list[int]:
        """Return a uniformly distributed permutation of the numbers from 0 to size - 1."""
        order = list(range(size))
        for last in range(size - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order


def shuffled(
    parents: Sequence[int], relations: Sequence[str], order: Sequence[int]
) -> tuple[list[int], list[str]]:
    """Permute the words of a tree.

    In the new tree, word `order[k]` takes over the node of word k in the old tree and its relation.
    """
    parents_after, relations_after = [0] * len(order), [""] * len(order)
    for word, place in enumerate(order):
        parent = parents[word]
        parents_after[place] = order[parent - 1] + 1 if parent else 0
        relations_after[place] = relations[word]
    return parents_after, relations_after


def random_tree(size: int, dice: Dice) -> list[int]:
    """Return the parents of a tree drawn uniformly from all rooted labelled trees.

    The function draws a root and a Prüfer sequence. Prüfer sequences correspond one-to-one to
    unrooted labelled trees.
    """
    root = dice.below(size)
    sequence = [dice.below(size) for _ in range(size - 2)]
    neighbours = neighbours_of(sequence, size)
    parents, open_nodes = [0] * size, [root]
    while open_nodes:
        node = open_nodes.pop()
        for child in neighbours[node]:
            neighbours[child].remove(node)
            parents[child] = node + 1
            open_nodes.append(child)
    return parents


def neighbours_of(sequence: Sequence[int], size: int) -> list[list[int]]:
    """Decode a Prüfer sequence and return the neighbours of each node.

    For each number in the sequence, the smallest remaining leaf is connected to the node with this
    number, and then removed.
    """
    neighbours: list[list[int]] = [[] for _ in range(size)]
    if size == 1:
        return neighbours
    joined = Counter(sequence)
    missing = [1 + joined[node] for node in range(size)]
    leaves = [node for node in range(size) if missing[node] == 1]
    for node in sequence:
        leaf = heapq.heappop(leaves)
        neighbours[leaf].append(node)
        neighbours[node].append(leaf)
        missing[node] -= 1
        if missing[node] == 1:
            heapq.heappush(leaves, node)
    first, last = leaves
    neighbours[first].append(last)
    neighbours[last].append(first)
    return neighbours


def flipped(
    parents: Sequence[int], relations: Sequence[str], rate: float, dice: Dice
) -> tuple[list[int], list[str]]:
    """Reattach each word with probability `rate` to a random other word.

    The words are processed in order. A word is moved together with its subtree, so its new parent
    is always outside of the subtree. The root and words without another possible parent are never
    reattached.
    """
    parents, relations = list(parents), list(relations)
    for word, parent in enumerate(parents):
        if not rate or not parent or not dice.happens(rate):
            continue
        below = subtree(parents, word)
        places = [k for k in range(len(parents)) if k not in below and k != parent - 1]
        if places:
            parents[word] = places[dice.below(len(places))] + 1
            relations[word] = "dep"
    return parents, relations


def subtree(parents: Sequence[int], top: int) -> set[int]:
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent:
            children[parent - 1].append(node)
    found, open_nodes = set(), [top]
    while open_nodes:
        node = open_nodes.pop()
        found.add(node)
        open_nodes += children[node]
    return found
