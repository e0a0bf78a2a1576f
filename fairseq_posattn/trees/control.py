"""Make control trees, which have less of the syntax of a sentence than its own tree, or nothing.

A model may gain from any tree, because even a chain of the words brings relative positions. So a
gain from syntax is the difference to a model that was trained in the same way on control trees.

| Control | The tree of a sentence |
|---|---|
| own | its own tree, as it was parsed |
| chain | each word is a child of the word before it; the first word is the root |
| reversed | each word is a child of the word after it; the last word is the root |
| flat | all words are children of the first |
| random | one of all trees over its words, each of which is equally probable |
| shuffled | its own tree, whose nodes have changed their words: other words have the same depths |

With a `flip` above 0, a part of the words is attached to other words after that. All that is left
to chance is drawn from a hash of the text, so a sentence has the same tree wherever it occurs.
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
from fairseq_posattn.io.argument_types import option, positive, share
from fairseq_posattn.io.records import limit, one_of
from fairseq_posattn.trees.checks import flat_tree
from fairseq_posattn.trees.sentence import Sentence, escape_whitespace

FIXED: dict[str, Callable[[int], list[int]]] = {  # these trees depend on the number of words only
    "chain": lambda size: list(range(size)),
    "reversed": lambda size: [*range(2, size + 1), 0],
    "flat": flat_tree,
}
OF_WORDS = (*FIXED, "random")  # these trees need no other tree
OF_TREES = ("own", "shuffled")
CONTROLS = (*OF_TREES, *OF_WORDS)
TAG = re.compile(rf"({'|'.join(CONTROLS)})(?:-flip(0\.[0-9]+|1\.0))?(?:-seed([0-9]+))?")


@dataclass(frozen=True)
class TreeControl:
    """A control says which trees the sentences get.

    kind: one of CONTROLS.
    flip: the share of words, from 0 to 1, that are attached to another word.
    seed: all that is left to chance depends on this number and on the tokens.
    """

    kind: str = option(
        "give each sentence its own tree (default), a chain in which each word is a child of the "
        "word before it, the reversed chain, a flat tree below the first word, a random tree, or "
        "its own tree with its nodes shuffled over the words",
        "own",
        flag="--control",
        choices=CONTROLS,
        **one_of(*CONTROLS),
    )
    flip: float = option(
        "attach this share of the words to other words, chosen by chance (default: %(default)s)",
        *(0.0, "", "RATE"),
        type=share,
        **limit(lambda rate: 0 <= rate <= 1, "a number from 0 to 1"),
    )
    seed: int = option(
        "choose by chance with this seed; a sentence has the same tree wherever it occurs "
        "(default: %(default)s)",
        1,
        flag="--control-seed",
        type=positive,
    )

    def __post_init__(self) -> None:
        if 0 < self.flip < 1e-20:  # file names contain its digits, and their length is limited
            raise InputError(
                f"--flip {self.flip:g} is too small to change any tree; use 0, or at least 1e-20"
            )

    def __bool__(self) -> bool:
        """Return whether sentences get other trees than their own."""
        return self.kind != "own" or self.flip > 0

    @property
    def needs_trees(self) -> bool:
        return self.kind in OF_TREES

    @property
    def tag(self) -> str:
        """Return the control as one word, for files and options: chain-flip0.25-seed2."""
        rate = f"{Decimal(repr(float(self.flip))):f}"  # never as 1e-05
        flip = f"-flip{rate}" if self.flip else ""
        seed = f"-seed{self.seed}" if self.seed != 1 else ""
        return f"{self.kind}{flip}{seed}"

    @classmethod
    def from_tag(cls, tag: str) -> TreeControl:
        found = TAG.fullmatch(tag)
        if not found:
            raise InputError(
                f"'{tag}' is no control of trees; write one of {', '.join(CONTROLS)}, and after it "
                "what else is wanted, as in chain-flip0.25-seed2"
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
        """Return the parents and relations of a sentence before words are attached elsewhere."""
        own, size = list(sentence.parents or ()), len(sentence.words)
        relations = sentence.relations or ["_"] * size
        if self.kind == "own":
            return own, relations
        if self.kind == "shuffled":
            return shuffled(own, relations, dice.permutation(size))
        parents = random_tree(size, dice) if self.kind == "random" else FIXED[self.kind](size)
        return parents, ["dep" if parent else "root" for parent in parents]


class Dice:
    """These dice fall as the hash of a text says: the same on all machines and in all versions."""

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
        """Return the numbers from 0 to size - 1 in an order in which all are equally probable."""
        order = list(range(size))
        for last in range(size - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order


def shuffled(
    parents: Sequence[int], relations: Sequence[str], order: Sequence[int]
) -> tuple[list[int], list[str]]:
    """Return a tree in which word `order[k]` has the place and the relation that word k had."""
    parents_after, relations_after = [0] * len(order), [""] * len(order)
    for word, place in enumerate(order):
        parent = parents[word]
        parents_after[place] = order[parent - 1] + 1 if parent else 0
        relations_after[place] = relations[word]
    return parents_after, relations_after


def random_tree(size: int, dice: Dice) -> list[int]:
    """Return the parents of a random tree; each labelled tree with a root is equally probable.

    Prüfer's sequences of size - 2 numbers stand for the trees without a root, one for each.
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
    """Return the neighbours of each node in the tree of a Prüfer sequence.

    The smallest leaf is joined to the first number, and taken away, until two nodes are left.
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
    """Return the tree with a share of its words attached to other words, one after the other.

    A word moves with its subtree, so it is never attached within that. The root stays, and so does
    a word that could only stay where it is.
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
