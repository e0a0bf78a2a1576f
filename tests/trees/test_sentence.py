"""One class holds a sentence with its tree."""

from fairseq_posattn.trees import Parsed, Sentence
from fairseq_posattn.trees.sentence import Tags, join_parts

IM_HAUS = Sentence(["in", "dem", "Haus"], [3, 3, 0], [(0, 2, "im")])


def test_tokens():
    assert IM_HAUS.tokens == ["im", "Haus"] and IM_HAUS.words_of_token == [2, 1]
    assert list(IM_HAUS.counted_tokens()) == [("im", 2), ("Haus", 1)]
    assert str(IM_HAUS) == "im Haus"
    plain = Sentence(["a", "b"], [0, 1])
    assert plain.tokens == ["a", "b"] and plain.words_of_token is None
    assert list(plain.counted_tokens()) == [("a", 1), ("b", 1)]


def test_the_name_in_the_readme():
    assert Parsed(["a", "b"], [0, 1]) == Sentence(["a", "b"], [0, 1])


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
