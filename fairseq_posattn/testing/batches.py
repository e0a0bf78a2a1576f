"""Checks of shapes, gradients and the use of trees.

They also check that the output for a sentence depends neither on padding nor on other sentences.
"""

import torch

from fairseq_posattn.core.attention import AttentionContext
from fairseq_posattn.core.attention.sample_batch import (
    TREES,
    WIDTH,
    context,
    inputs,
    random_tree,
    real_pieces,
)
from fairseq_posattn.testing.layer import (
    HEADS,
    Attention,
    attention,
    has_replacement,
    mechanisms_of,
)
from fairseq_posattn.testing.outcomes import (
    BrokenPromise,
    expect_same,
    for_some_values,
    is_close,
    largest_difference,
    shape_of,
)

ON_WEIGHTS = ("change_weights", "change_scores", "allowed")


def shapes_and_gradients_are_right(specification: str) -> None:
    """Check that output and weights have the correct shapes and all gradients are finite."""
    ctx = context(TREES)
    module = attention(specification).train()
    out, weights = module.with_weights(inputs(TREES, ctx), ctx)
    wanted = {
        "output": (out, (ctx.length, len(TREES), WIDTH)),
        "weights": (weights, (len(TREES), HEADS, ctx.length, ctx.length)),
    }
    for what, (tensor, shape) in wanted.items():
        if tensor.shape != shape:
            raise BrokenPromise(
                f"{what} of shape {' x '.join(map(str, shape))}",
                shape_of(tensor),
                "see the shapes in core/attention/stages.py",
            )
    out.square().sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is None or not torch.isfinite(parameter.grad).all():
            unused = parameter.grad is None
            look = "use it in a stage, or remove it" if unused else "avoid divisions by zero"
            found = "none" if unused else "nan or infinity"
            raise BrokenPromise(f"a finite gradient of {name}", found, look)


@for_some_values
def every_parameter_matters(specification: str) -> None:
    """Check that every parameter has an effect, that is, its gradient is not zero everywhere."""
    ctx = context(TREES)
    module = attention(specification).train()
    module.output(inputs(TREES, ctx), ctx).square().sum().backward()
    # Adding a constant to all scores of a row does not change the softmax.
    unseen = ["k_proj.bias", *(name for m in mechanisms_of(specification) for name in m.unseen)]
    for name, parameter in module.named_parameters():
        if any(f".{name}".endswith(f".{other}") for other in unseen):
            continue
        if parameter.grad is None or parameter.grad.abs().sum() <= 1e-12:
            raise BrokenPromise(
                f"that {name} changes the output",
                "a gradient of zero everywhere",
                "use it in a stage; if it only shifts all scores of a row, list it in `unseen`",
            )


def a_sentence_is_the_same_in_a_batch(specification: str) -> None:
    """Check that neither other sentences nor padding on either side affect an output."""
    module = attention(specification)
    look = "it may read padding or other sentences: ctx.real is True except for padding"
    for left in (False, True):
        ctx = context(TREES, length=13, left=left)
        together = module.output(inputs(TREES, ctx, left), ctx)
        for row, tree in enumerate(TREES):
            real = real_pieces(ctx)[row]
            alone = module.output(inputs(TREES, ctx, left)[:, row : row + 1][real], context([tree]))
            found, expected = together[:, row][real], alone[:, 0]
            if not is_close(found, expected):
                side = "before" if left else "after"
                difference = largest_difference(found, expected)
                raise BrokenPromise(
                    "the same output for a sentence alone and in a batch",
                    f"a difference of {difference:.2g} with padding {side} it",
                    look,
                )
        look = "it may count columns; take positions from ctx.positions or ctx.distances"


def padding_gets_no_weight(specification: str) -> None:
    """Check that the weight of a padding key is exactly zero."""
    ctx = context(TREES, length=12)
    _, weights = attention(specification).with_weights(inputs(TREES, ctx), ctx)
    on_padding = weights[~real_pieces(ctx)[:, None, None, :].expand_as(weights)]
    if (on_padding != 0).any():
        raise BrokenPromise(
            "a weight of 0 for each padding key",
            f"{float(on_padding.abs().max()):.2g}",
            "it may distribute weights over other keys after the softmax",
            ON_WEIGHTS,
        )


def empty_rows_stay_finite(specification: str) -> None:
    """Check that a sentence that consists only of padding has zero weights and finite gradients."""
    trees = [random_tree(4, 1), ([], [])]
    ctx = context(trees)
    module = attention(specification)
    assert isinstance(module.out_proj, torch.nn.Linear)
    torch.nn.init.zeros_(module.out_proj.bias)
    x = inputs(trees, ctx).requires_grad_()
    out, weights = module.with_weights(x, ctx)
    look = "avoid divisions by zero, and maxima over an empty sentence"
    if (weights[1] != 0).any():
        raise BrokenPromise(
            "weights of 0 for an all-padding sentence",
            f"{float(weights[1].abs().max()):.2g}",
            look,
            ON_WEIGHTS,
        )
    # A mechanism that replaces the output may have a residual connection.
    if not has_replacement(module) and (out[:, 1] != 0).any():
        raise BrokenPromise(
            "an output of 0 for an all-padding sentence",
            f"{float(out[:, 1].detach().abs().max()):.2g}",
            look,
            ("value_term", "change_weights"),
        )
    expect_same(
        module.output(x, ctx),
        out,
        "the same output with and without weights, in a batch with an empty sentence",
        look,
    )
    out.square().sum().backward()
    gradients = {"the input": x.grad} | {n: p.grad for n, p in module.named_parameters()}
    for name, gradient in gradients.items():
        if gradient is not None and not torch.isfinite(gradient).all():
            raise BrokenPromise(
                f"a finite gradient of {name} with an empty sentence", "nan or infinity", look
            )


def rows_of_padding_stay_finite(specification: str) -> None:
    """Check that padded batches with large scores give finite outputs in bfloat16 and float32."""
    ctx = context(TREES, length=14)
    for dtype in (torch.bfloat16, torch.float32):
        module = attention(specification).to(dtype)
        with torch.no_grad():
            module.q_proj.weight.mul_(20)
            module.k_proj.weight.mul_(20)
        if not torch.isfinite(module.output(inputs(TREES, ctx, dtype=dtype), ctx)).all():
            raise BrokenPromise(
                f"finite numbers with large scores in {dtype}",
                "nan or infinity",
                "compute exponents in float32: at_least_float32(x)",
            )


@for_some_values
def trees_are_read_if_needed(specification: str) -> None:
    """Check that it reads trees if needs_tree = True, and works without them otherwise."""
    needed = any(m.needs_tree for m in mechanisms_of(specification))
    ctx = context(TREES)
    module = attention(specification)
    if not needed:
        works_without_trees(module, ctx)
        return
    other = context([random_tree(len(words) - 1, 9 + n) for n, (words, _) in enumerate(TREES)])
    x = inputs(TREES, ctx)
    if largest_difference(module.output(x, ctx), module.output(x, other)) < 1e-9:
        raise BrokenPromise(
            "a different output for different trees",
            "the same, although needs_tree = True",
            "read ctx.tree, or remove needs_tree",
        )


def works_without_trees(module: Attention, ctx: AttentionContext) -> None:
    """Raise a BrokenPromise if the layer fails without trees."""
    without = AttentionContext(ctx.length, ctx.device, ctx.real, brackets=ctx.brackets)
    try:
        module.output(inputs(TREES, ctx), without)
    except Exception as error:
        raise BrokenPromise(
            "that it works without trees",
            f"{type(error).__name__}: {error}",
            "if it reads ctx.tree, set needs_tree = True",
        ) from error
