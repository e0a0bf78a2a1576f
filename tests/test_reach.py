"""The package keeps to the limits of tests/reach.py, once they are switched on there."""

from reach import HELD, too_long, weights


def test_limits():
    assert all(weights().values())
    assert not (HELD and too_long())
