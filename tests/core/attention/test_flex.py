"""FlexAttention gives what the pipeline gives without it; a GPU would compile it."""

import pytest
import torch

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    attend,
    flex,
)

if not flex.AVAILABLE:
    pytest.skip("this torch has no FlexAttention with lengths of its own", allow_module_level=True)
from torch.nn.attention import flex_attention as of_torch

SHAPE = AttentionShape(4, 16, max_positions=300)
LENGTH = 150  # two tiles
TAKEN = [
    "window(size=5)",
    "window(size=301)",
    "window(size=41) + alibi(sides=learnt, offset=0.5)",
    "window(size=41) + t5_bias(buckets=8, max=6, shared=nothing) + gaussian",
    "window(size=41) + direct_relative(init=glorot) + gaussian(heads=1|3)",
    "block(size=7)",
    "block",
]
OTHERS = [
    "window(size=5, across=3)",
    "window(size=5, heads=1)",
    "window(size=5) + alibi(sides=one_sided)",
    "window(size=5) + relative",
    "block + tree_window",
    "gaussian",
]


@pytest.fixture
def calls(monkeypatch):
    """The list gets an entry each time that FlexAttention computes the output, in single steps."""
    seen, attention = [], flex.attention

    def noted(*arguments):
        seen.append(arguments)
        return attention(*arguments)

    monkeypatch.setattr(flex, "SHORTEST", 1)
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))
    monkeypatch.setattr(flex, "attention", noted)
    monkeypatch.setattr(flex, "compiled", lambda: of_torch.flex_attention)
    monkeypatch.setattr(of_torch, "_validate_device", lambda *tensors: None)  # gradients on CPUs
    return seen


def mechanisms_of(specification):
    torch.manual_seed(1)
    found = torch.nn.ModuleList(AttentionSpecification(specification).build(0, SHAPE)).double()
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter)
    return found


def computed(mechanisms, padding, causal=False):
    """Return the output of real pieces, and the gradients."""
    ctx = AttentionContext.from_padding(padding, causal=causal)
    generator = torch.Generator().manual_seed(2)
    size = (len(padding), SHAPE.heads, padding.size(1), SHAPE.head_width)
    q, k, v = (torch.randn(size, generator=generator, dtype=torch.double) for _ in range(3))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    out = attend(*inputs, ctx, list(mechanisms))[0].transpose(1, 2)[~padding]
    acting = [p for p in mechanisms.parameters() if any(p is x for x in acting_on(mechanisms))]
    weights = torch.randn(out.shape, generator=generator, dtype=torch.double)
    return out, torch.autograd.grad((out * weights).sum(), [*inputs, *acting])


def acting_on(mechanisms):
    """The parameters of biases; `block` has others, which act after the attention."""
    return [p for m in mechanisms if m.name != "block" for p in m.parameters()]


def padded(left: bool, lengths=(LENGTH, LENGTH - 40)):
    columns = torch.arange(LENGTH)
    columns = columns.flip(0) if left else columns
    return torch.stack([columns >= length for length in lengths])


@pytest.mark.parametrize("specification", TAKEN)
@pytest.mark.parametrize("case", ["left", "right", "none"])
def test_as_without_it(specification, case, calls, monkeypatch):
    padding = padded(case == "left", (LENGTH, LENGTH) if case == "none" else (LENGTH, LENGTH - 40))
    mechanisms = mechanisms_of(specification)
    found = computed(mechanisms, padding)
    assert len(calls) == 1
    monkeypatch.setattr(flex, "DEVICES", ())
    torch.testing.assert_close(found, computed(mechanisms, padding))
    assert len(calls) == 1


def test_decoders(calls, monkeypatch):
    mechanisms = mechanisms_of("window(size=41) + alibi")
    found = computed(mechanisms, padded(left=False), causal=True)
    assert len(calls) == 1
    monkeypatch.setattr(flex, "DEVICES", ())
    torch.testing.assert_close(found, computed(mechanisms, padded(left=False), causal=True))


@pytest.mark.parametrize("specification", OTHERS)
def test_other_mechanisms_take_the_usual_path(specification, calls):
    mechanisms = mechanisms_of(specification)
    ctx = AttentionContext.from_padding(padded(left=True))
    assert flex.limits(ctx, list(mechanisms)) is None


def test_tiles():
    """They are those with any allowed pair, as torch finds them by trying all pairs."""
    for length, reach, ahead in ((1000, 5, 5), (1000, 130, 130), (512, 300, 0), (130, 129, 129)):
        found = flex.tiles(length, reach, ahead, "cpu")

        def near(batch, head, query, key, reach=reach, ahead=ahead):
            return (query - key <= reach) & (key - query <= ahead)

        expected = of_torch.create_block_mask(near, None, None, length, length, "cpu")
        assert torch.equal(found.to_dense(), expected.to_dense()), (length, reach, ahead)
    assert flex.tiles(1000, 5, 5, "cpu") is flex.tiles(1000, 5, 5, "cpu")


def test_few_kernels_for_all_lengths():
    lengths = {flex.padded_length(length, flex.TILE) for length in range(4096, 2**15 + 1)}
    assert len(lengths) <= 13


@pytest.mark.long
def test_the_compiled_kernel(monkeypatch):
    """On a CPU it has no backward pass."""
    monkeypatch.setattr(flex, "SHORTEST", 1)
    q, k, v = torch.randn(3, 2, SHAPE.heads, LENGTH, SHAPE.head_width)
    mechanisms = [m.float() for m in mechanisms_of("window(size=11) + alibi")]
    found = []
    for devices in (("cpu",), ()):
        monkeypatch.setattr(flex, "DEVICES", devices)
        with torch.no_grad():
            found.append(
                attend(q, k, v, AttentionContext.from_padding(padded(True)), mechanisms)[0]
            )
    real = ~padded(True)
    torch.testing.assert_close(*(out.transpose(1, 2)[real] for out in found))
