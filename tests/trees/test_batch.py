"""Batches of trees: what is refused."""

import numpy as np
import pytest

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store_format import collate, pack


def test_a_tree_with_too_few_pieces_is_named_with_both_numbers():
    records, lengths = pack([([0], [1]), ([0, 1], [2, 2]), ([0, 1, 1], [1, 2, 4])])
    assert collate(records, lengths, np.array([1, 3, 7])).shape == (2, 3, 3)
    said = "sentence 2 of a batch has 5 pieces, but its tree has only 4; run posattn binarize again"
    with pytest.raises(TreeError, match=f"^{said}$"):
        collate(records, lengths, np.array([1, 5, 7]))
