"""A tree for the eye: its words one below the other, shifted to the right by their depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from fairseq_posattn.io.visible import visible
from fairseq_posattn.trees.sentence import numbered


def depths(parents: Sequence[int]) -> list[int]:
    """Edges from each word up to the root."""
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
    """A line for each word: depth, tab, word."""
    for word, depth in zip(words, depths(parents), strict=True):
        yield f"{depth}\t{'  ' * depth}{visible(word)}"


def words_of_tree(tokens: Sequence[str], words_of_token: Sequence[int] | None) -> list[str]:
    """A name for each word; those of a multiword token are told apart by numbers: im/1, im/2."""
    if words_of_token is None:
        return list(tokens)
    pairs = zip(tokens, words_of_token, strict=True)
    return [name for token, count in pairs for name in numbered(token, count)]


def words_by_counts(pieces: Sequence[str], counts: Sequence[int], marks: str) -> list[str]:
    """The words that pieces spell, as many pieces each as counted; a word without pieces: ·."""
    rest = (piece.removeprefix(marks).removesuffix(marks) for piece in pieces)
    return ["".join(islice(rest, count)) or "·" for count in counts]


def number_of_words(parents: Sequence[int], counts: Sequence[int]) -> int:
    """Of a tree with zeros behind it; a word without pieces has a parent, too, or is one."""
    seen = [k for k, pair in enumerate(zip(parents, counts, strict=True), start=1) if any(pair)]
    return max([0, *seen, *parents])
