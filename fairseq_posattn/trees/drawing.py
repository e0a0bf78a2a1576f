"""Draw a tree as text: its words stand one below the other, indented by their depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from fairseq_posattn.io.visible import visible
from fairseq_posattn.trees.sentence import numbered


def depths(parents: Sequence[int]) -> list[int]:
    """Return the depth of each word: the number of edges from it up to the root."""
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
    """Yield a line for each word: its depth, a tab, and the indented word."""
    for word, depth in zip(words, depths(parents), strict=True):
        yield f"{depth}\t{'  ' * depth}{visible(word)}"


def words_of_tree(tokens: Sequence[str], words_of_token: Sequence[int] | None) -> list[str]:
    """Return a name for each word; those of a multiword token have numbers: im/1, im/2."""
    if words_of_token is None:
        return list(tokens)
    pairs = zip(tokens, words_of_token, strict=True)
    return [name for token, count in pairs for name in numbered(token, count)]


def words_by_counts(pieces: Sequence[str], counts: Sequence[int], marks: str) -> list[str]:
    """Return the words that pieces spell, by the number of pieces of each word.

    A word without pieces is shown as `·`. `marks` is what begins or ends pieces within a word.
    """
    rest = (piece.removeprefix(marks).removesuffix(marks) for piece in pieces)
    return ["".join(islice(rest, count)) or "·" for count in counts]


def number_of_words(parents: Sequence[int], counts: Sequence[int]) -> int:
    """Return the number of words of a tree that is padded by zeros.

    A word without pieces is still recognised, because it has a parent or is one.
    """
    seen = [k for k, pair in enumerate(zip(parents, counts, strict=True), start=1) if any(pair)]
    return max([0, *seen, *parents])
