"""The package keeps to the limits of tests/reach.py."""

from reach import files, too_long


def test_limits():
    assert files("fairseq_posattn/**/*.py")
    assert not too_long()
