"""Check that a list of parents is a tree.

`parents[k]` is the parent of word k + 1. Words are counted from 1 as in CoNLL-U, and the parent of
the root is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fairseq_posattn.errors import InputError

SEVERAL_ROOTS = ("error", "first")


class TreeError(InputError):
    """This error says that a tree, or the file that holds it, cannot be right."""


class Fault(NamedTuple):
    """A fault says what is wrong with a tree, and at which word (counted from 1)."""

    word: int
    what: str


def tree_fault(parents: Sequence[int]) -> Fault | None:
    """Return the first fault of a tree, or None, in time linear in the number of its words."""
    if not parents:
        return None
    if min(parents) < 0 or max(parents) > len(parents):
        return _fault_of_range(parents)
    if (roots := parents.count(0)) != 1:
        return _fault_of_roots(parents, roots)
    return _fault_of_cycle(parents)


def with_one_root(parents: Sequence[int]) -> list[int]:
    """Return the tree with its first root alone; further roots become children of the first."""
    if 0 not in parents:
        return list(parents)
    first = parents.index(0)
    return [
        first + 1 if parent == 0 and word != first else parent
        for word, parent in enumerate(parents)
    ]


def checked_tree(parents: Sequence[int], where: str, several_roots: str = "error") -> Sequence[int]:
    """Return the tree, or raise an error that begins with `where`.

    With `several_roots` "first", further roots become children of the first root before the check.
    """
    if several_roots == "first":
        parents = with_one_root(parents)
    if fault := tree_fault(parents):
        raise TreeError(f"{where}: {fault.what}")
    return parents


def flat_tree(words: int) -> list[int]:
    """Return a tree for a sentence that has none: each word is a child of the first."""
    return [0] + [1] * (words - 1) if words else []


def _fault_of_range(parents: Sequence[int]) -> Fault:
    word = next(k for k, parent in enumerate(parents, start=1) if not 0 <= parent <= len(parents))
    return Fault(
        word,
        f"the parent of word {word} is {parents[word - 1]}, "
        f"but the sentence has the words 1 to {len(parents)}; name one of them, or 0 for the root",
    )


def _fault_of_roots(parents: Sequence[int], roots: int) -> Fault:
    if not roots:
        return Fault(1, "the sentence has no root; give one of its words the parent 0")
    words = [k for k, parent in enumerate(parents, start=1) if parent == 0]
    listed = ", ".join(map(str, words))
    return Fault(
        words[1],
        f"the sentence has {roots} roots (words {listed}); "
        "mend the tree, or keep the first with posattn trees --several-roots first",
    )


def _fault_of_cycle(parents: Sequence[int]) -> Fault | None:
    """Climb from each word to one seen before; a climb that meets its own words is a cycle.

    Each word is visited once, so the time is linear.
    """
    climb_of = [-1] + [0] * len(parents)  # the root's parent, 0, counts as seen
    for start in range(1, len(parents) + 1):
        word = start
        while not climb_of[word]:
            climb_of[word] = start
            word = parents[word - 1]
        if climb_of[word] == start:
            cycle = _cycle_through(parents, word)
            return Fault(word, f"the parents form a cycle: {cycle}; break it")
    return None


def _cycle_through(parents: Sequence[int], word: int) -> str:
    cycle = [word]
    while (parent := parents[cycle[-1] - 1]) != word:
        cycle.append(parent)
    return " -> ".join(map(str, [*cycle, word]))
