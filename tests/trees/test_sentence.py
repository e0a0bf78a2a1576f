"""One class holds a sentence with its tree."""

import pickle

import pytest

from fairseq_posattn.trees import Parsed, Sentence
from fairseq_posattn.trees.sentence import Tags, join_parts, of_tokens

IM_HAUS = Sentence(["in", "dem", "Haus"], [3, 3, 0], [(0, 2, "im")])


def test_tokens():
    assert IM_HAUS.tokens == ["im", "Haus"] and IM_HAUS.words_of_token == [2, 1]
    assert list(IM_HAUS.counted_tokens()) == [("im", 2), ("Haus", 1)]
    assert str(IM_HAUS) == "im Haus"
    plain = Sentence(["a", "b"], [0, 1])
    assert plain.tokens == ["a", "b"] and plain.words_of_token is None
    assert list(plain.counted_tokens()) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("tokens", "counts", "words"),
    [
        (["a", "b"], None, ["a", "b"]),
        (["im", "Haus"], [2, 1], ["im/1", "im/2", "Haus"]),
        (["Haus", "zum"], [1, 2], ["Haus", "zum/1", "zum/2"]),
        ([], None, []),
    ],
)
def test_of_tokens(tokens, counts, words):
    """The names of the words are made up; the tokens come back."""
    parents = list(range(len(words)))
    found = of_tokens(tokens, parents, counts)
    assert (found.words, found.parents) == (words, parents)
    assert (found.tokens, found.words_of_token) == (tokens, counts)


def test_the_name_in_the_readme():
    assert Parsed(["a", "b"], [0, 1]) == Sentence(["a", "b"], [0, 1])


def test_escaped():
    sentence = Sentence(["10 000", "in", "dem"], [0, 1, 1], [(1, 2, "i m")])
    assert sentence.escaped().tokens == ["10␣000", "i␣m"]
    assert sentence.tokens == ["10 000", "i m"]


def test_flat_and_without_tree():
    tags = [Tags(upos="X")] * 3
    sentence = Sentence(IM_HAUS.words, [3, 3, 0], IM_HAUS.multiword, ["a", "b", "root"], tags)
    flat = sentence.flat("why")
    assert (flat.parents, flat.relations, flat.note) == ([0, 1, 1], ["root", "dep", "dep"], "why")
    assert flat.tags == tags and flat.tokens == sentence.tokens
    assert [tag.upos for tag in Sentence(["a", "b"]).flat().tags] == ["_", "_"]
    bare = sentence.without_tree("so")
    assert (bare.parents, bare.relations, bare.note) == (None, None, "so")


def test_join_parts():
    """Under the first root; what a part does not say is _."""
    parts = [
        Sentence(["a", "b"], [0, 1], [], ["root", "x"], [Tags("A"), Tags("B")]),
        Sentence(["in", "dem", "c", "d"], [3, 3, 0, 0], [(0, 2, "im")]),
    ]
    joined = join_parts(parts, "two")
    assert joined.words == ["a", "b", "in", "dem", "c", "d"]
    assert joined.parents == [0, 1, 5, 5, 1, 1]
    assert joined.relations == ["root", "x", "_", "_", "parataxis", "parataxis"]
    assert joined.multiword == [(2, 2, "im")]
    assert [tag.lemma for tag in joined.tags] == ["A", "B", "_", "_", "_", "_"]
    assert joined.note == "two"
    assert join_parts([]) == Sentence([], [], relations=[], tags=[])


def test_pickling():
    """A parser in another process sends sentences."""
    assert pickle.loads(pickle.dumps(IM_HAUS)) == IM_HAUS
