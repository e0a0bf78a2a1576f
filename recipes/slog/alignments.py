"""Say from which word of a sentence of SLOG each name in its logical form comes.

A verb comes from the word that its role says: `ccomp`, `xcomp`, or the relative clause of a noun. A
noun comes from the word of its own name below the word that its parent in the form comes from. A
noun that is named again, because a relative clause or an infinitive shares it, stands further up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from forms import PLACE, QUESTIONS, Node

VERBS = {"ccomp": "ccomp", "xcomp": "xcomp", "nmod": "acl:relcl"}  # role -> label of the word


def aligned(
    words: Sequence[str], parents: Sequence[int], labels: Sequence[str], form: Node
) -> dict[int, int]:
    """Return the word, counted from 0, that each name of a form comes from, by its place there.

    parents: counted from 1, and 0 for the root.
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
    """Yield the words below a word, then those above it, each before the other words below it."""
    yield from children(parents, head)
    while parents[head]:
        head = parents[head] - 1
        yield head
        yield from children(parents, head)


def is_named(word: str, name: str) -> bool:
    """Return whether a noun of a form may come from a word."""
    return word.lower() in QUESTIONS if name == "?" else word == name
