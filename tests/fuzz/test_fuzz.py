"""Damaged inputs end in one clear line: one of each class at least, more in the longer lanes."""

import pytest

from .registry import all_classes, inputs_of
from .runner import Fuzzed

SEED, INPUTS = 2, {"quick": 1, "ci": 200, "all": 1000}  # of all classes, by lane


@pytest.mark.parametrize("name", all_classes())
def test_damaged_inputs_end_in_one_clear_line(name, lane, tmp_path):
    fuzzed = Fuzzed(all_classes()[name], tmp_path, SEED)
    numbers = range(inputs_of(all_classes(), INPUTS[lane])[name])
    failures = [failure for number in numbers if (failure := fuzzed.failure(number))]
    assert not failures, "\n".join(f"{f.number} ({f.damage}): {f.reason}" for f in failures)
