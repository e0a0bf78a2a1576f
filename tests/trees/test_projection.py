"""From words to pieces."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_trees import forms, parents, split

from fairseq_posattn.trees import TreeError, plain_form, project, words_of_pieces

JOINED = [
    ("", [], []),
    ("a", ["a"], [1]),
    ("a@@ b c", ["ab", "c"], [2, 1]),
    ("a@@ b@@ c d@@ e", ["abc", "de"], [3, 2]),
    ("@ a@b @@@ @", ["@", "a@b", "@@"], [1, 1, 2]),
]


@pytest.mark.parametrize(("pieces", "words", "counts"), JOINED)
def test_words_of_pieces(pieces, words, counts):
    assert words_of_pieces(pieces.split()) == (words, counts)


def test_other_separator():
    assert words_of_pieces(["a\uffed", "b@@"], "\uffed") == (["ab@@"], [2])


def test_project():
    assert project(["ab", "c"], [2, 0], ["a@@", "b", "c"], "here") == [2, 1]


def test_another_joiner():
    def letters(pieces):
        return ["".join(pieces)], [len(pieces)]

    assert project(["abc"], [0], ["a", "b", "c"], "here", letters) == [3]


@given(parents(), st.data())
def test_random_splits(tree, data):
    words = [
        data.draw(forms().map(plain_form).filter(lambda w: not w.endswith("@@"))) for _ in tree
    ]
    split_words = [split(data.draw, word) for word in words]
    pieces = [piece for word in split_words for piece in word]
    assert project(words, tree, pieces, "here") == [len(word) for word in split_words]


CHANGED = (
    "here: the segmenter changed the words: word 2 is {} in the tree and {} in the pieces; "
    "the tree has '{}', the pieces spell '{}'"
)
BAD = [
    ("a B", [0, 1], "a b", ("'B'", "'b'", "a B", "a b")),
    ("a b", [0, 1], "a", ("'b'", "nothing", "a b", "a")),
    ("a", [0], "a b@@ c", ("nothing", "'bc'", "a", "a bc")),
    ("a b@@", [0, 1], "a b@@ x", ("'b@@'", "'bx'", "a b@@", "a bx")),
]


@pytest.mark.parametrize(("words", "tree", "pieces", "difference"), BAD)
def test_changed_words(words, tree, pieces, difference):
    with pytest.raises(TreeError, match=re.escape(CHANGED.format(*difference))):
        project(words.split(), tree, pieces.split(), "here")


def test_first_word_changed():
    with pytest.raises(TreeError, match="word 1 is 'a' in the tree and 'ac' in the pieces"):
        project(["a", "b"], [0, 1], ["a@@", "c", "b"], "here")


def test_dangling_separator():
    with pytest.raises(TreeError, match=r"^here: the last piece 'b@@' has no successor to join"):
        project(["a", "b"], [0, 1], ["a", "b@@"], "here")


def test_tree_of_another_sentence():
    with pytest.raises(TreeError, match=r"^here: the sentence has 2 words and its tree 3"):
        project(["a", "b"], [0, 1, 1], ["a", "b"], "here")
