"""Damaged inputs end in one clear line: a few of each class here, 1,000 in the long suite."""

import pytest

from .registry import all_classes, inputs_of
from .runner import Fuzzed

FEW, MANY = 4, 1000


def failures(name, folder, seed, count):
    fuzzed = Fuzzed(all_classes()[name], folder, seed)
    found = [failure for number in range(count) if (failure := fuzzed.failure(number))]
    return "\n".join(f"{name} {f.number} ({f.damage}): {f.reason}" for f in found)


@pytest.mark.parametrize("name", all_classes())
def test_a_damaged_input_ends_in_one_clear_line(name, tmp_path):
    assert not failures(name, tmp_path, 1, FEW)


@pytest.mark.long
@pytest.mark.parametrize("name", all_classes())
def test_many_damaged_inputs_end_in_one_clear_line(name, tmp_path):
    assert not failures(name, tmp_path, 2, inputs_of(all_classes(), MANY)[name])
