"""The trees of new lines: each line is parsed once, and small batches are parsed together."""

import numpy as np

from fairseq_posattn.text.live.line_trees import PARSED_TOGETHER, NewTrees
from fairseq_posattn.text.live.segmented import spelled
from fairseq_posattn.trees import Sentence


def test_lines_of_later_batches_are_parsed_together_with_those_of_the_first():
    lines = [spelled(" ".join("a" * (50 - k)), "@@") for k in range(50)]
    asked = []

    def find(numbers: list[int]) -> list[Sentence]:
        asked.append(numbers)
        words = [lines[k].text.split() for k in numbers]
        return [Sentence(one, list(range(len(one)))) for one in words]

    trees = NewTrees(lines, find)
    records, lengths = trees.read(np.array([49, 48]))
    assert lengths.tolist() == [1, 2] and records["parent"].tolist() == [0, 0, 1]
    assert asked == [list(range(49, 49 - PARSED_TOGETHER, -1))]  # the shortest ones
    trees.read(np.arange(49 - PARSED_TOGETHER + 1, 50))
    assert len(asked) == 1
    trees.read(np.arange(18))
    assert sorted(asked[1]) == list(range(18)) and len(trees.found) == 50
