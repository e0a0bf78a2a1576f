"""What makes a list of parents a tree.

`parents[k]` is the parent of word k + 1, counted from 1 as in CoNLL-U; the root's is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fairseq_posattn.errors import InputError

SEVERAL_ROOTS = ("error", "first")


class TreeError(InputError):
    """A tree, or its file, that cannot be right."""


class Fault(NamedTuple):
    """What is wrong with a tree, and at which word (counted from 1)."""

    word: int
    what: str


def tree_fault(parents: Sequence[int]) -> Fault | None:
    """The first thing that is wrong with a tree, or None; takes time linear in its words."""
    if not parents:
        return None
    if min(parents) < 0 or max(parents) > len(parents):
        return _fault_of_range(parents)
    if (roots := parents.count(0)) != 1:
        return _fault_of_roots(parents, roots)
    return _fault_of_cycle(parents)


def with_one_root(parents: Sequence[int]) -> list[int]:
    """The first root stays, and further ones become its children."""
    if 0 not in parents:
        return list(parents)
    first = parents.index(0)
    return [
        first + 1 if parent == 0 and word != first else parent
        for word, parent in enumerate(parents)
    ]


def checked_tree(parents: Sequence[int], where: str, several_roots: str = "error") -> Sequence[int]:
    """The tree, or an error begun with `where`; `several_roots` "first" mends further roots."""
    if several_roots == "first":
        parents = with_one_root(parents)
    if fault := tree_fault(parents):
        raise TreeError(f"{where}: {fault.what}")
    return parents


def flat_tree(words: int) -> list[int]:
    """The tree of a sentence that has none: each word a child of the first."""
    return [0] + [1] * (words - 1) if words else []


def _fault_of_range(parents: Sequence[int]) -> Fault:
    word = next(k for k, parent in enumerate(parents, start=1) if not 0 <= parent <= len(parents))
    return Fault(
        word,
        f"the head of word {word} is {parents[word - 1]}, "
        f"but the sentence has the words 1 to {len(parents)} (0 is the root)",
    )


def _fault_of_roots(parents: Sequence[int], roots: int) -> Fault:
    if not roots:
        return Fault(1, "no root: one word of the sentence must have the head 0")
    words = [k for k, parent in enumerate(parents, start=1) if parent == 0]
    listed = ", ".join(map(str, words))
    return Fault(
        words[1],
        f"{roots} roots (words {listed}); "
        "mend the tree, or keep the first with --several-roots first",
    )


def _fault_of_cycle(parents: Sequence[int]) -> Fault | None:
    """Climb from each word to one seen before: each is seen once, a cycle in its own climb."""
    climb_of = [-1] + [0] * len(parents)  # the root's place 0 counts as seen
    for start in range(1, len(parents) + 1):
        word = start
        while not climb_of[word]:
            climb_of[word] = start
            word = parents[word - 1]
        if climb_of[word] == start:
            return Fault(word, f"a cycle: {_cycle_through(parents, word)}")
    return None


def _cycle_through(parents: Sequence[int], word: int) -> str:
    cycle = [word]
    while (parent := parents[cycle[-1] - 1]) != word:
        cycle.append(parent)
    return " -> ".join(map(str, [*cycle, word]))
