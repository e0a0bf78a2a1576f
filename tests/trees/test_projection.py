"""These tests check the way from words to pieces."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_posattn.trees import Parsed, TreeError, escape_whitespace, project, words_of_pieces
from fairseq_posattn.trees.projection import same_text
from support.random_trees import forms, parents, split

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
    assert project(Parsed(["ab", "c"], [2, 0]), ["a@@", "b", "c"], "here") == [2, 1]


def test_words_of_one_token():
    im_haus = Parsed(["im", "Haus"], [3, 3, 0], [2, 1])
    assert project(im_haus, ["i@@", "m", "Haus"], "here") == [2, 0, 1]


def test_pieces_that_cross_words():
    world = Parsed(["Hello", "world", "."], [0, 1, 2])
    assert project(world, ["Hello", "world."], "here") == [1, 1, 0]
    world = Parsed(["world", "."], [2, 0])  # as if the full stop were the parent
    assert project(world, ["world."], "here") == [0, 1]


@settings(max_examples=50)
@given(parents(), st.data())
def test_random_splits(tree, data):
    words = [
        data.draw(forms().map(escape_whitespace).filter(lambda w: not w.endswith("@@")))
        for _ in tree
    ]
    split_words = [split(data.draw, word) for word in words]
    pieces = [piece for word in split_words for piece in word]
    assert project(Parsed(words, tree), pieces, "here") == [len(word) for word in split_words]


CHANGED = [
    ("a B c", [0, 1, 1], "a b x", "character 3 (without spaces) is 'x' in the text and 'c'"),
    ("a b", [0, 1], "a", "character 2 (without spaces) is the end in the text and 'b'"),
    ("a", [0], "a b@@ c", "character 2 (without spaces) is 'b' in the text and the end"),
    ("a b@@", [0, 1], "a b@@ x", "character 3 (without spaces) is 'x' in the text and '@'"),
]


@pytest.mark.parametrize(("words", "tree", "pieces", "difference"), CHANGED)
def test_changed_words(words, tree, pieces, difference):
    with pytest.raises(
        TreeError, match=re.escape(f"here: text and tree do not match, because {difference}")
    ):
        project(Parsed(words.split(), tree), pieces.split(), "here")


def test_dangling_separator():
    with pytest.raises(
        TreeError, match=r"^here: the last piece 'b@@' ends with '@@', but no piece follows"
    ):
        project(Parsed(["a", "b"], [0, 1]), ["a", "b@@"], "here")


def test_tree_of_another_sentence():
    with pytest.raises(TreeError, match=r"^here: the sentence has 2 words, but its tree has 3"):
        project(Parsed(["a", "b"], [0, 1, 1]), ["a", "b"], "here")


SAME = [
    ("１０時前に", "10時 前 に"),
    ("ﾃﾞｰﾀ", "データ"),
    ("oﬃce ﬁnds", "office finds"),
    ("cafe\u0301", "café"),
    ("u \u0308", "ü"),
    ("ΟΔΟΣ ısı", "οδος ısı"),
    ("« a »…", '"a"...'),
    ("می\u200cروم", "می روم"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_text(one, other):
    assert same_text(one, other) and same_text(one.lower(), other)
    assert not same_text(one, f"{other}x") and not same_text(f"x{one}", other)
