"""Align each name in a logical form of SLOG with a word of the sentence.

Each name is aligned after its parent in the form. A verb is aligned by its role (`ccomp`, `xcomp`,
or relative clause of a noun) with a child of its parent's word, and a noun with an equal word among
these children. If a relative clause or an infinitive shares a noun, the form repeats it, and its
word is higher in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forms import PLACE, QUESTIONS, Node

VERBS = {"ccomp": "ccomp", "xcomp": "xcomp", "nmod": "acl:relcl"}  # role -> label of the word


def aligned(
    words: Sequence[str], parents: Sequence[int], labels: Sequence[str], form: Node
) -> dict[int, int]:
    """Return, for the position of each name in the form, the index of its word.

    parents: counted from 1; 0 for the root.
    """
    found = {form.place: parents.index(0)}

    def follow(node: Node) -> None:
        head = found[node.place]
        for role, child in node.edges:
            if role in VERBS:
                named = [k for k in children(parents, head) if labels[k] == VERBS[role]]
            else:
                named = [k for k in places(parents, head) if is_named(words[k], child.name)]
                unread = [k for k in named if k not in found.values() or role.startswith(PLACE)]
                named = [k for k in unread if parents[k] == head + 1] or named
            found[child.place] = named[0]
            follow(child)

    follow(form)
    return found


def children(parents: Sequence[int], head: int) -> list[int]:
    return [k for k, parent in enumerate(parents) if parent == head + 1]


def places(parents: Sequence[int], head: int) -> Iterator[int]:
    """Yield the children of a word, then each ancestor, followed by its children."""
    yield from children(parents, head)
    while parents[head]:
        head = parents[head] - 1
        yield head
        yield from children(parents, head)


def is_named(word: str, name: str) -> bool:
    """Return whether a noun of a form may be aligned with a word."""
    return word.lower() in QUESTIONS if name == "?" else word == name
