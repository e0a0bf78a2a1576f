"""These tests check the text files between the steps."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.trees import TreeError, escape_whitespace
from fairseq_posattn.trees.lines import (
    parents_line,
    parse_parents,
    parse_tree,
    parse_words,
    read_parents,
    read_trees,
    read_words,
    tree_line,
    words_line,
)
from support.random_trees import forms, parents


def test_what_the_lines_look_like():
    assert words_line(["a", "b"]) == "a b"
    assert parents_line([2, 0, 2]) == "2 0 2"
    assert parents_line(None) == "-"
    assert words_line([]) == parents_line([]) == tree_line([], []) == ""
    assert tree_line([2, 0, 2], [1, 3, 1]) == "2:1 0:3 2:1"
    assert parents_line([3, 3, 0], [2, 1]) == "3+3 0"  # im Haus
    assert parents_line(None, [2, 1]) == "-"


@given(parents(), st.data())
def test_words_of_one_token(tree, data):
    ends = data.draw(st.sets(st.integers(1, len(tree) - 1))) if len(tree) > 1 else set()
    cuts = [0, *sorted(ends), len(tree)]
    counts = [b - a for a, b in pairwise(cuts)]
    expected = (tree, counts if len(counts) < len(tree) else None)
    assert parse_parents(parents_line(tree, counts), "here") == expected or not tree


@given(parents(), st.data())
def test_what_is_written_is_read(tree, data):
    words = [escape_whitespace(data.draw(forms())) for _ in tree]
    counts = [data.draw(st.integers(1, 9)) for _ in tree]
    assert parse_words(words_line(words), "here") == words
    assert parse_parents(parents_line(tree), "here") == (tree, None)
    assert parse_tree(tree_line(tree, counts), "here") == (tree, counts, None)


@given(forms())
def test_a_plain_form_is_one_word_for_every_reader(form):
    plain = escape_whitespace(form)
    assert plain.split() == plain.splitlines() == [plain]
    assert len(plain) == len(form)
    assert escape_whitespace(plain) == plain


def test_files(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"0 1\n\n-\n0")
    assert list(read_parents(path)) == [([0, 1], None), ([], None), (None, None), ([0], None)]
    path.write_bytes("a\u2028b c\u0085\n\nd\n".encode())
    assert list(read_words(path)) == [["a\u2028b", "c\u0085"], [], ["d"]]
    path.write_bytes(b"0:2 1:0\n\n")
    assert list(read_trees(path)) == [([0, 1], [2, 0], None), ([], [], None)]


def test_several_roots_first(tmp_path):
    path = tmp_path / "parents"
    path.write_text("0 0 2\n")
    assert list(read_parents(path, "first")) == [([0, 1, 2], None)]


BAD = [
    (read_words, "a  b", "the line starts or ends with a space or has two in a row"),
    (read_parents, "0 x", "'x' is not a whole number; write numbers like 10"),
    (read_parents, "0 \u0661", "'\u0661' is not a whole number"),
    (read_parents, f"0 {'1' * 4301}", "'111"),
    (read_parents, "0 0", "the sentence has 2 roots (words 1, 2)"),
    (read_parents, "1", "the sentence has no root"),
    (read_trees, "0:1 1", "expected parent:pieces for each word, as in '2:1 0:3', found '0:1 1'"),
    (read_trees, "0:1 1:+1", "'+1' is not a whole number"),
    (read_trees, "0:1 1:-1", "word 2 has -1 pieces"),
    (read_trees, "0:1 2:1", "the parents form a cycle: 2 -> 2"),
]


@pytest.mark.parametrize(("read", "line", "message"), BAD)
def test_bad_input(tmp_path, read, line, message):
    path = tmp_path / "lines"
    path.write_text(f"\n{line}\n")
    with pytest.raises(TreeError, match=re.escape(f"{path}:2: {message}")):
        list(read(path))


def test_a_tree_of_another_length_is_not_written():
    with pytest.raises(ValueError):
        tree_line([0, 1], [1])
