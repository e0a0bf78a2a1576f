"""A bias in another precision than the scores: a mechanism of one's own may return any."""

import pytest
import torch

from fairseq_posattn.core.attention import AttentionContext, ScoreBias
from fairseq_posattn.core.attention.kernels import lowest
from fairseq_posattn.core.attention.mechanism import AttentionShape, NoOptions
from fairseq_posattn.core.attention.pipeline import spread_bias


class Distance(ScoreBias):
    """The bias is the negated distance, in a precision that the test chooses."""

    name = "distance"
    dtype = torch.float32

    def bias(self, q, ctx):
        return (-ctx.distances.abs()).to(self.dtype)


@pytest.mark.parametrize("scores", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_any_precision_becomes_that_of_the_scores(bias, scores):
    """What is below the lowest number of the scores becomes it."""
    mechanism = Distance(NoOptions(), AttentionShape(2, 4))
    mechanism.dtype = bias
    ctx = AttentionContext(3, torch.device("cpu"))
    q = torch.zeros(1, 2, 3, 4, dtype=scores)
    found = spread_bias(mechanism, q, q, ctx)
    assert found.dtype == scores
    assert found[..., 0, :].flatten().tolist()[:3] == [0, -1, -2]
    mechanism.bias = lambda q, ctx: torch.full((1, 1, 3, 3), -1e30)
    assert spread_bias(mechanism, q, q, ctx).min() >= lowest(scores)
