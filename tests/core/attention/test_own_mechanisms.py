"""Four mechanisms of one's own give what the loops of the package's kin give."""

import sys
from importlib import import_module

import pytest
import torch
from test_mechanisms import PARTS, compare

from fairseq_posattn.core.attention import AttentionShape
from fairseq_posattn.testing.layer import HEADS
from support import own_classes
from support import reference_mechanisms as slow
from support.commands import ROOT

SLOPES = torch.tensor([2.0 ** (-8 * h / HEADS) for h in (1, 2, 3, 4)], dtype=torch.float64)
OWN = {
    "my_alibi": lambda m, *_: slow.Alibi(SLOPES, SLOPES, heads=m.heads),
    "my_t5_bias": lambda m, *_: slow.T5Bias(m.table, m.options.furthest),
    "my_rope": lambda m, *_: slow.Rope(m.options.theta),
    "my_tree_window": lambda m, *tree: slow.TreeWindow(*tree, m.options.edges),
}


@pytest.fixture(autouse=True, scope="module")
def own():
    """The modules of tests/own_mechanisms, registered for the tests of this file."""
    names = ("alibi", "t5_bias", "rope", "tree_window")
    with own_classes.restored(), pytest.MonkeyPatch.context() as patch:
        for name, part in OWN.items():
            patch.setitem(PARTS, name, part)
        sys.path.insert(0, str(ROOT / "tests/own_mechanisms"))
        yield {name: import_module(name) for name in names}


@pytest.mark.parametrize("pieces", [0, 1, 6])  # and end of sentence
@pytest.mark.parametrize(
    "specification",
    [
        *("my_alibi", "my_alibi(heads=1|3)", "my_t5_bias", "my_t5_bias(buckets=8, furthest=6)"),
        *("my_rope(theta=10_000)", "my_rope(theta=10)"),
        *(f"my_tree_window(edges={edges})" for edges in (0, 1, 2)),
    ],
)
def test_equals_the_loops(specification, pieces):
    compare(specification, pieces)


def test_alibi_with_a_number_of_heads_that_is_no_power_of_two(own):
    assert own["alibi"].slopes(12) == slow.alibi_slopes(12)


@pytest.mark.parametrize("causal", [False, True])
def test_t5_buckets_of_any_distance(causal, own):
    """The buckets are those of the loops beyond the furthest, too, and on both sides."""
    mechanism = own["t5_bias"].T5Bias(own["t5_bias"].T5BiasOptions(), AttentionShape(HEADS, 4))
    distances = torch.arange(-300, 1 if causal else 301)
    part = slow.T5Bias(torch.zeros(1, 64 if causal else 32), 128)
    expected = [part.bucket(step) for step in distances.tolist()]
    assert mechanism.bucket(distances, causal).tolist() == expected
