"""Control trees against slow constructions from their definitions."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import as_record
from fairseq_posattn.trees import Sentence
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.control import CONTROLS, Dice, TreeControl, neighbours_of, random_tree
from support.random_trees import forms, parents

WORDS = ["the", "dog", "sees", "a", "cat"]
PARENTS = [2, 3, 0, 5, 3]
RELATIONS = ["det", "nsubj", "root", "det", "obj"]
RECORDED = {"random": [3, 1, 0, 5, 3], "shuffled": [0, 3, 1, 1, 4], "flipped": [0, 1, 1, 2, 4]}


def sentence(words=WORDS, tree=PARENTS, relations=RELATIONS) -> Sentence:
    return Sentence(list(words), tree, relations=relations)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("chain", [0, 1, 2, 3, 4]), ("reversed", [2, 3, 4, 5, 0]), ("flat", [0, 1, 1, 1, 1])],
)
def test_trees_of_the_words_alone(kind, expected):
    for tree in (PARENTS, None):
        found = TreeControl(kind).of(sentence(tree=tree))
        assert found.parents == expected and found.words == WORDS
        assert found.relations == ["dep" if parent else "root" for parent in expected]


def test_a_missing_tree_stays_missing_where_it_is_needed():
    for control in (TreeControl("shuffled"), TreeControl(flip=0.5)):
        assert control.of(sentence(tree=None)).parents is None


def depths(tree) -> list[int]:
    def depth(word):
        return 0 if tree[word - 1] == 0 else 1 + depth(tree[word - 1])

    return [depth(word) for word in range(1, len(tree) + 1)]


@given(parents(most=12), st.integers(1, 3))
def test_shuffled_is_the_same_tree_of_other_words(tree, seed):
    """Some order of the words turns one tree into the other, and their relations go along."""
    words = [f"w{k}" for k in range(len(tree))]
    relations = [f"r{k}" for k in range(len(tree))]  # the name of a place in the tree
    found = TreeControl("shuffled", seed=seed).of(sentence(words, tree, relations))
    place = [relations.index(name) for name in found.relations or []]
    assert sorted(place) == list(range(len(tree)))
    for word, parent in enumerate(found.parents):
        above = tree[place[word]]
        assert (place[parent - 1] + 1 if parent else 0) == above
    assert sorted(depths(found.parents)) == sorted(depths(tree))


def test_all_orders_are_equally_probable():
    found = Counter(tuple(Dice(str(k)).permutation(4)) for k in range(24 * 200))
    assert len(found) == 24
    assert all(140 < count < 260 for count in found.values())  # 200, with deviations of 14


def joined(sequence, size) -> set[frozenset[int]]:
    """The edges of the tree of a Prüfer sequence, step by step as the definition has it."""
    degree = [sum(node == other for other in sequence) + 1 for node in range(size)]
    edges = set()
    for node in sequence:
        leaf = next(k for k in range(size) if degree[k] == 1)
        edges.add(frozenset((leaf, node)))
        degree[leaf] -= 1
        degree[node] -= 1
    edges.add(frozenset(k for k in range(size) if degree[k] == 1))
    return edges


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_each_sequence_is_another_tree(size):
    """There are size ** (size - 2) trees without a root, and as many sequences (Cayley)."""
    trees = set()
    for sequence in itertools.product(range(size), repeat=size - 2):
        found = neighbours_of(sequence, size)
        edges = {frozenset((a, b)) for a in range(size) for b in found[a]}
        assert edges == joined(sequence, size)
        trees.add(frozenset(edges))
    assert len(trees) == size ** (size - 2)


def test_all_random_trees_are_equally_probable():
    """Four words have 4 ** 3 trees with a root."""
    found = Counter(tuple(random_tree(4, Dice(str(k)))) for k in range(64 * 200))
    assert len(found) == 64 and not any(tree_fault(tree) for tree in found)
    assert all(140 < count < 260 for count in found.values())


@given(
    st.lists(forms(), max_size=30), st.sampled_from(CONTROLS), st.just(0.0) | st.floats(1e-20, 1)
)
def test_each_is_a_tree(words, kind, flip):
    tree = list(range(len(words)))
    found = TreeControl(kind, flip).of(Sentence(words, tree))
    assert not tree_fault(found.parents) and len(found.parents) == len(words)


@given(parents(most=15))
def test_flips_keep_the_root_and_move_words(tree):
    """With a rate of 1 every word moves that can: a word needs a place outside of its subtree."""
    words = [f"w{k}" for k in range(len(tree))]
    found = TreeControl(flip=1.0).of(Sentence(words, tree, relations=["x"] * len(tree)))
    assert not tree_fault(found.parents)
    for k, parent in enumerate(tree):
        assert (parent == 0) == (found.parents[k] == 0)
        assert (found.relations[k] == "x") or found.parents[k] != 0
    if len(tree) > 2 and depths(tree).count(1) == len(tree) - 1:  # nothing is in the way
        assert list(found.parents) != list(tree)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_as_many_words_are_flipped_as_the_rate_says(rate):
    moved = total = 0
    for k in range(300):
        words = [f"{k}.{j}" for j in range(20)]
        found = TreeControl("flat", rate).of(Sentence(words))
        moved += sum(parent != 1 for parent in found.parents[1:])
        total += 19
    assert abs(moved / total - rate) < 0.03


def test_a_flip_moves_a_word_with_its_subtree():
    """Only the words that were hit have another parent, so their subtrees stay below them."""
    tree = [2, 3, 0, 5, 3, 5, 6]
    for k in range(50):
        words = [f"{k}.{j}" for j in range(len(tree))]
        found = TreeControl(flip=0.3).of(Sentence(words, tree, relations=["x"] * len(tree)))
        for j in range(len(tree)):
            assert (found.relations[j] == "dep") == (found.parents[j] != tree[j])


def test_the_trees_are_the_same_on_every_machine():
    """These trees were recorded: other ones would change data that were made before."""
    assert TreeControl("random").of(sentence()).parents == RECORDED["random"]
    assert TreeControl("shuffled").of(sentence()).parents == RECORDED["shuffled"]
    assert TreeControl("chain", 0.5, 2).of(sentence()).parents == RECORDED["flipped"]


def test_the_seed_and_the_words_decide():
    control, other = TreeControl("random"), TreeControl("random", seed=2)
    words = [f"w{k}" for k in range(20)]
    here = control.of(Sentence(words)).parents
    assert here == control.of(Sentence(words, list(range(20)))).parents
    assert here != other.of(Sentence(words)).parents
    assert here != control.of(Sentence([*words[:-1], "x"])).parents
    spaces = control.of(Sentence(["1 000", "b", "c", "d", "e", "f"])).parents
    assert spaces == control.of(Sentence(["1\u2423000", "b", "c", "d", "e", "f"])).parents


def test_names_of_files():
    assert TreeControl("chain").tag == "chain"
    assert TreeControl("own", 0.25, 2).tag == "own-flip0.25-seed2"
    assert TreeControl("own", 1e-05).tag == "own-flip0.00001"


@pytest.mark.parametrize("flip", [0, 0.0, 1e-05, 3e-20, 0.1, 1 / 3, 1, 1.0])
def test_a_name_is_read_again(flip):
    control = TreeControl("shuffled", flip, 3)
    assert TreeControl.from_tag(control.tag) == control


@pytest.mark.parametrize("document", [{"kind": "straight"}, {"flip": 1.5}, {"flip": -0.1}])
def test_refused_in_a_document(document):
    with pytest.raises(InputError, match="expected"):
        as_record(TreeControl, document, "prepare.json", "prepare the data again")


def test_a_share_that_no_file_name_could_hold_is_refused():
    """File names contain its digits, and their length is limited."""
    with pytest.raises(InputError, match="--flip 1e-300 is too small to change any tree; use 0"):
        TreeControl("random", flip=1e-300)
    assert TreeControl("random", flip=1e-20).tag.endswith("flip0.00000000000000000001")
