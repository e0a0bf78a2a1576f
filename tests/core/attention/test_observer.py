"""An observer is told what the stages of a layer make, in their order, and changes nothing."""

import pytest
import torch

from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs
from fairseq_posattn.testing.layer import attention

STAGES = {
    "": ["transformed", "softmax", "end"],
    "window(size=3) + relative": ["transformed", "mask", "bias", "softmax", "value_term", "end"],
    "rope + temperature": ["transform", "transform", "transformed", "softmax", "end"],
    "local_soft": ["transformed", "bias", "softmax", "end"],
    "window(size=3, across=3)": ["transformed", "mask", "expand", "softmax", "end"],
    "convolved_1d + window(size=5)": ["transformed", "mask", "softmax", "change_weights", "end"],
    "cnn(kernel=3)": ["before", "transformed", "softmax", "end"],
    "parent_scaled": ["transformed", "change_scores", "softmax", "end"],
    "block(size=4)": ["transformed", "mask", "softmax", "end", "replace"],
}


@pytest.mark.parametrize("specification", STAGES)
def test_what_is_told(specification):
    layer = attention(specification)
    ctx = context(TREES)
    x = inputs(TREES, ctx)
    told = []
    found = layer(x, ctx, observe=lambda stage, _, **tensors: told.append((stage, tensors)))
    output, weights = layer(x, ctx, need_weights=True)
    torch.testing.assert_close(found[0], output, rtol=0, atol=0)
    assert [stage for stage, _ in told] == STAGES[specification]
    torch.testing.assert_close(dict(told)["end"]["weights"], weights, rtol=0, atol=0)
