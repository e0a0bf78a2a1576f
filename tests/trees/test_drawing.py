"""Trees are drawn for the eye."""

from fairseq_posattn.trees.drawing import drawn


def test_drawn():
    assert list(drawn(["she", "saw", "him"], [2, 0, 2])) == ["1\t  she", "0\tsaw", "1\t  him"]
    assert list(drawn([], [])) == []
    assert list(drawn(["a\u202eb"], [0])) == ["0\ta\\u202eb"]
