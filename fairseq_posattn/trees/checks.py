"""Check that a list of parents is a tree.

`parents[k]` is the parent of word k + 1. Words are numbered from 1, as in CoNLL-U, and the parent
of the root is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fairseq_posattn.errors import InputError

SEVERAL_ROOTS = ("error", "first")


class TreeError(InputError):
    """A tree, or the file that contains it, is invalid."""


class Fault(NamedTuple):
    """An error in a tree: the index of the word (starting at 1) and a description of the error."""

    word: int
    what: str


def tree_fault(parents: Sequence[int]) -> Fault | None:
    """Return the first error in a tree, or None if the tree is valid.

        tree_fault([2, 0, 2])  # None
        tree_fault([2, 1]).what  # "the sentence has no root; ..."

    The running time is linear in the number of words.
    """
    if not parents:
        return None
    if min(parents) < 0 or max(parents) > len(parents):
        size = len(parents)
        word = next(k for k, parent in enumerate(parents, start=1) if not 0 <= parent <= size)
        return Fault(
            word,
            f"the parent of word {word} is {parents[word - 1]}, but the sentence has the words 1 "
            f"to {size}; use one of these numbers, or 0 for the root",
        )
    if (roots := parents.count(0)) != 1:
        return _fault_of_roots(parents, roots)
    return _fault_of_cycle(parents)


def with_one_root(parents: Sequence[int]) -> list[int]:
    """Attach all roots except the first to the first root: [0, 0, 2] becomes [0, 1, 2]."""
    if 0 not in parents:
        return list(parents)
    first = parents.index(0)
    return [
        first + 1 if parent == 0 and word != first else parent
        for word, parent in enumerate(parents)
    ]


def checked_tree(parents: Sequence[int], where: str, several_roots: str = "error") -> Sequence[int]:
    """Return the tree, or raise a TreeError if it is invalid.

    where: prefix of the error message, for example a file name and line number.
    several_roots: "first" attaches all further roots to the first root before the check.
    """
    if several_roots == "first":
        parents = with_one_root(parents)
    if fault := tree_fault(parents):
        raise TreeError(f"{where}: {fault.what}")
    return parents


def flat_tree(words: int) -> list[int]:
    """Return a tree in which all words are children of the first: [0, 1, 1] for three words."""
    return [0] + [1] * (words - 1) if words else []


def _fault_of_roots(parents: Sequence[int], roots: int) -> Fault:
    if not roots:
        return Fault(1, "the sentence has no root; set the parent of one word to 0")
    words = [k for k, parent in enumerate(parents, start=1) if parent == 0]
    listed = ", ".join(map(str, words))
    return Fault(
        words[1],
        f"the sentence has {roots} roots (words {listed}); "
        "correct the tree, or keep the first root with posattn trees --several-roots first",
    )


def _fault_of_cycle(parents: Sequence[int]) -> Fault | None:
    """Return an error if the parents form a cycle, otherwise None.

    From each word, the parents are followed until a visited word is reached. If this word is
    on the current path, there is a cycle. Each word is visited once, so the running time is linear.
    """
    climb_of = [-1] + [0] * len(parents)  # the root's parent, 0, counts as visited
    for start in range(1, len(parents) + 1):
        word = start
        while not climb_of[word]:
            climb_of[word] = start
            word = parents[word - 1]
        if climb_of[word] == start:
            cycle = [word]
            while (parent := parents[cycle[-1] - 1]) != word:
                cycle.append(parent)
            shown = " -> ".join(map(str, [*cycle, word]))
            return Fault(word, f"the parents form a cycle: {shown}; correct one of them")
    return None
