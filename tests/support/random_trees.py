"""These strategies draw random sentences with trees and splits into pieces, for property tests."""

from hypothesis import strategies as st

LETTERS = st.characters(codec="utf-8", exclude_categories=["Cs"])


@st.composite
def parents(draw, most: int = 30) -> list[int]:
    """A tree: the words join it in a random order, each below one that is in it already."""
    order = draw(st.integers(0, most).flatmap(lambda n: st.permutations(range(1, n + 1))))
    tree = [0] * len(order)
    for k in range(1, len(order)):
        tree[order[k] - 1] = order[draw(st.integers(0, k - 1))]
    return tree


def forms() -> st.SearchStrategy[str]:
    """Return the strategy that draws any word, whitespace inside included."""
    return st.text(LETTERS, min_size=1, max_size=8)


def split(draw, word: str, separator: str = "@@") -> list[str]:
    """The word in pieces, cut anywhere."""
    cuts = sorted(draw(st.sets(st.integers(1, len(word) - 1)))) if len(word) > 1 else []
    bounds = zip([0, *cuts], [*cuts, len(word)], strict=True)
    pieces = [word[start:end] + separator for start, end in bounds]
    return [*pieces[:-1], pieces[-1].removesuffix(separator)]
