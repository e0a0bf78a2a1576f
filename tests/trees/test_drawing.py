"""Trees are drawn for the eye."""

from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.trees.drawing import (
    depths,
    drawn,
    number_of_words,
    words_by_counts,
    words_of_tree,
)
from support.random_trees import parents


def climbed(tree: list[int], word: int) -> int:
    return 0 if tree[word - 1] == 0 else 1 + climbed(tree, tree[word - 1])


@given(parents())
def test_depths(tree):
    assert depths(tree) == [climbed(tree, word) for word in range(1, len(tree) + 1)]


def test_drawn():
    assert list(drawn(["she", "saw", "him"], [2, 0, 2])) == ["1\t  she", "0\tsaw", "1\t  him"]
    assert list(drawn([], [])) == []
    assert list(drawn(["a\u202eb"], [0])) == ["0\ta\\u202eb"]


def test_words_of_one_token_are_told_apart():
    assert words_of_tree(["im", "Haus"], [2, 1]) == ["im/1", "im/2", "Haus"]
    assert words_of_tree(["Haus"], None) == ["Haus"]


def test_words_of_pieces():
    pieces = ["a@@", "b", "world."]
    assert words_by_counts(pieces, [2, 1, 0], "@@") == ["ab", "world.", "·"]
    assert words_by_counts(pieces, [2, 0, 1], "@@") == ["ab", "·", "world."]
    assert words_by_counts(["▁im", "▁", "Haus"], [1, 0, 2], "▁") == ["im", "·", "Haus"]


@given(parents(), st.data())
def test_padding_is_no_word(tree, data):
    counts = [data.draw(st.integers(0, 3)) for _ in tree]
    if len(tree) == 1:
        counts = [1]  # one word without pieces cannot be told from none
    behind = [0] * data.draw(st.integers(0, 3))
    assert number_of_words([*tree, *behind], [*counts, *behind]) == len(tree)
