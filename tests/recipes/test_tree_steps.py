"""The program that compares the order of target sentences with source trees."""

import sys

import pytest

from support.commands import ROOT, run
from support.files import write

TREES = ((2, 0, 2, 3), (3, 3, 0))  # the parents of "a b c d" and "a b c"
FORM = "c ( x = a , y = b )"  # its names are aligned with words; each starts at c, too


def printed(folder, alignments, *options, **kwargs):
    blocks = (
        "".join(f"{k}\t{'abcd'[k - 1]}\t_\tX\t_\t_\t{p}\tx\t_\t_\n" for k, p in enumerate(tree, 1))
        for tree in TREES
    )
    write(folder / "a.conllu", "".join(f"{block}\n" for block in blocks))
    write(folder / "a.align", alignments)
    program = ROOT / "recipes/tree_steps.py"
    command = [sys.executable, program, "a.conllu", "a.align", *options]
    return run(*command, cwd=folder, **kwargs).stdout.splitlines()[-1]


def test_steps_along_trees_and_chains(tmp_path):
    # b (or d) a: both; a c: neither; c d: both; then c a: the tree; a b: the chain
    alignments = ["1-0 3-0 0-1 2-2 3-3", "2-0 0-4 1-8"]
    assert printed(tmp_path, alignments).split() == ["5", "60.0", "60.0", "20.0", "20.0"]
    write(tmp_path / "forms", ["w x y z", FORM])
    found = printed(tmp_path, alignments, "--target", "forms")
    assert found.split() == ["5", "80.0", "60.0", "20.0", "0.0"]  # c b: the bracket is around c


@pytest.mark.parametrize(
    ("alignments", "message"),
    [
        (["0-0 3-1", "3-0"], "a.align:2: '3-0' is not an alignment of one of the 3 source words"),
        (["0-0", "x-1"], "a.align:2: 'x-1' is not an alignment"),
        (["0-0"], "a.conllu and a.align differ in their number of sentences"),
        (["0-0 1-0", ""], "a.align: no sentence has two aligned target words"),
    ],
)
def test_errors(tmp_path, alignments, message):
    assert message in printed(tmp_path, alignments, check=False)
