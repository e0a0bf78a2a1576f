"""The programs of tests/kills.py, killed at random moments and started twice, lose nothing.

CI kills the two that start no parser. The table of a recipe is killed at chosen moments in
tests/recipes/test_experiments.py, the preparation in tests/preparation.
"""

import pytest

from kills import PROGRAMS, lost_by
from support.killed import Tally

pytest.importorskip("stanza")


@pytest.mark.long(ci=["average", "probe"])
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"table", "parent"}))
def test_nothing_is_lost(name, lane, toy_data, shared_folder, tmp_path):
    tally = Tally(wanted=1) if lane == "ci" else Tally()
    assert not lost_by(PROGRAMS[name](shared_folder), tmp_path, tally)
    assert tally.kills == tally.wanted
