"""What is a tree and what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.trees.checks import tree_fault, with_one_root
from support.random_trees import parents

FAULTS = [
    ([2, 3, 9], 3, "the parent of word 3 is 9, but the sentence has the words 1 to 3"),
    ([0, -1], 2, "the parent of word 2 is -1, but the sentence has the words 1 to 2"),
    ([2, 1], 1, "the sentence has no root"),
    ([0, 1, 0, 0], 3, "the sentence has 3 roots (words 1, 3, 4)"),
    ([0, 2], 2, "the parents form a cycle: 2 -> 2"),
    ([0, 3, 4, 2], 2, "the parents form a cycle: 2 -> 3 -> 4 -> 2"),
    ([0, 4, 4, 3], 4, "the parents form a cycle: 4 -> 3 -> 4"),
]


def climbs_to_the_root(tree, word):
    for _ in tree:
        word = tree[word - 1]
        if word == 0:
            return True
    return False


@pytest.mark.parametrize(("tree", "word", "what"), FAULTS)
def test_faults(tree, word, what):
    fault = tree_fault(tree)
    assert fault.word == word
    assert fault.what.startswith(what)


@given(st.lists(st.integers(-1, 6), max_size=6))
def test_every_list_is_a_tree_or_has_a_fault(tree):
    in_range = all(0 <= parent <= len(tree) for parent in tree)
    is_tree = in_range and (not tree or tree.count(0) == 1)
    is_tree = is_tree and all(climbs_to_the_root(tree, k) for k in range(1, len(tree) + 1))
    assert (tree_fault(tree) is None) == is_tree


def test_further_roots_become_children_of_the_first():
    assert with_one_root([3, 1, 0, 0, 4, 0]) == [3, 1, 0, 3, 4, 3]


@given(parents(), st.data())
def test_any_forest_can_be_mended(tree, data):
    roots = data.draw(st.sets(st.integers(0, len(tree) - 1))) if tree else ()
    forest = [0 if k in roots else parent for k, parent in enumerate(tree)]
    assert tree_fault(with_one_root(forest)) is None


def test_a_long_chain_takes_no_recursion():
    assert tree_fault(list(range(100_000))) is None
