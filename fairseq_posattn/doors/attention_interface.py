"""The function that models of transformers call for their attention, and what it knows of a batch.

It is registered in the library's AttentionInterface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_posattn.core.attention import AttentionContext, AttentionShape
from fairseq_posattn.core.attention.kernels import scaled_scores, softmax_weights
from fairseq_posattn.core.attention.mechanism import Mechanism, ScoreBias
from fairseq_posattn.core.attention.pipeline import attend
from fairseq_posattn.core.source_tree import PADDING, SourceTree, doublings
from fairseq_posattn.errors import InputError

NAME = "posattn"  # of the implementation, of the new modules, and of their key in the configuration
TREE = "source_tree"


@dataclass
class State:
    """This is what all layers of a model know of the batch.

    trees: by the device of the batch, since torch's DataParallel runs a copy of the model on each;
    contexts: by the mask, and the numbers of queries and keys.
    """

    trees: dict[torch.device, Tensor | None] = field(default_factory=dict)
    contexts: dict[Any, tuple[Any, AttentionContext]] = field(default_factory=dict)
    generating: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the batch out of copies of a model, and of files with it."""
        return State, ()

    def begin(self, tree: Tensor | None, batch: Iterable[Any]) -> None:
        """Take the trees of a new batch, B 2 T."""
        given = [one for one in (tree, *batch) if isinstance(one, Tensor)]
        device = given[0].device if given else torch.device("cpu")
        self.trees[device] = tree
        self.forget(device)

    def forget(self, device: torch.device) -> None:
        """Forget what is known of the former batch on a device, but for layers that run again."""
        self.contexts = {key: found for key, found in self.contexts.items() if key[-1] != device}

    def tree_on(self, device: torch.device) -> Tensor | None:
        """Return the trees for a layer, which may lie on another device than the batch."""
        if device in self.trees or len(self.trees) != 1:
            return self.trees.get(device)
        [tree] = self.trees.values()
        return None if tree is None else tree.to(device)


AGAIN: ContextVar[State | None] = ContextVar("AGAIN", default=None)  # of a layer's first run


def bind_checkpoints(model: Any, state: State) -> None:
    """Let layers that run again under gradient checkpointing find the trees of their own batch."""
    for module in model.modules():
        if hasattr(module, "_gradient_checkpointing_func"):  # it is on already
            module._gradient_checkpointing_func = partial(
                run_bound, state, module._gradient_checkpointing_func
            )
        if hasattr(module, "_set_gradient_checkpointing"):
            module.__dict__["_set_gradient_checkpointing"] = partial(
                set_bound, state, module._set_gradient_checkpointing
            )


def set_bound(
    state: State, set_checkpointing: Callable[..., None], *args: Any, **kwargs: Any
) -> None:
    """Set a model's gradient checkpointing to one that knows the state."""
    name = "gradient_checkpointing_func"
    if name in kwargs:
        kwargs[name] = partial(run_bound, state, kwargs[name])
    set_checkpointing(*args, **kwargs)


def run_bound(
    state: State, checkpoint: Callable[..., Any], layer: Callable[..., Any], *args: Any
) -> Any:
    """Run a layer under gradient checkpointing; its second run finds what it knows now."""
    now = State(dict(state.trees), state.contexts)

    def again(*args: Any) -> Any:
        token = AGAIN.set(now)
        try:
            return layer(*args)
        finally:
            AGAIN.reset(token)

    return checkpoint(again, *args)


def register() -> None:
    """Let transformers know the attention of this package by its name."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


class Given(ScoreBias):
    """The bias that a model has already, such as T5's."""

    name = "given"

    def bias(self, q: Tensor, ctx: AttentionContext) -> Tensor:
        given: Tensor = self.options
        return given


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return output, B Q H D, and weights, as functions of the AttentionInterface do.

    In a module without mechanisms, this is plain attention.
    """
    mechanisms = getattr(module, NAME, None)
    wanted = bool(kwargs.get("output_attentions", False) or module.config.output_attentions)
    if mechanisms is None and not wanted:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        how = {"dropout": dropout, "scaling": scaling, "position_bias": position_bias, **kwargs}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **how)
    width = query.size(-1)
    if scaling is not None and scaling != width**-0.5:  # attend divides by sqrt(d)
        query = query * (scaling * width**0.5)
    if mechanisms is None:
        return with_weights(module, query, key, value, attention_mask, dropout, position_bias)
    chosen: list[Mechanism] = list(mechanisms.values())
    if position_bias is not None:
        chosen.append(Given(position_bias, AttentionShape(query.size(1), width)))
    ctx = context(module, query, key, attention_mask)
    rate = nn.Dropout(dropout) if dropout else None
    out, weights = attend(query, key, value, ctx, chosen, rate, wanted)
    return out.transpose(1, 2).contiguous(), weights


def with_weights(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return output and weights of plain attention; torch's kernel does not return weights."""
    scores = scaled_scores(query, key)
    if bias is not None:
        scores = scores + bias
    if mask is None and getattr(module, "is_causal", False):
        mask = torch.ones(scores.shape[-2:], device=key.device).tril(key.size(2) - query.size(2))
        mask = mask.bool()
    if mask is not None and mask.dtype != torch.bool:
        scores, mask = scores + mask, None
    weights = softmax_weights(scores, mask)
    out = nn.functional.dropout(weights, dropout) @ value
    return out.transpose(1, 2).contiguous(), weights


def context(module: Any, query: Tensor, key: Tensor, mask: Tensor | None) -> AttentionContext:
    """Return the context of a batch, which all layers of a side share."""
    state: State = AGAIN.get() or module.__dict__[f"{NAME}_state"]
    causal = bool(getattr(module, "is_causal", False))
    asked = (id(mask), query.size(2), key.size(2), causal, query.device)
    if asked not in state.contexts:
        real = None if mask is None else real_keys(mask, causal)
        state.contexts[asked] = (
            mask,
            new_context(query, key, real, causal, state.tree_on(query.device)),
        )
    return state.contexts[asked][1]


def new_context(
    query: Tensor, key: Tensor, real: Tensor | None, causal: bool, tree: Tensor | None
) -> AttentionContext:
    queries, keys = query.size(2), key.size(2)
    trees = None
    if tree is not None and not causal:
        if tree.dim() != 3 or tree.size(1) != 2 or tree.is_floating_point():
            raise InputError(
                f"{TREE} has the shape {list(tree.shape)} and the type {tree.dtype}, expected "
                "B 2 T of whole numbers; make it by a TreeCollator"
            )
        if tree.size(-1) < keys or len(tree) != len(key):
            raise InputError(
                f"{TREE} has {len(tree)} sentences of {tree.size(-1)} columns, and the batch "
                f"{len(key)} of {keys}; make it by a TreeCollator"
            )
        check_trees(tree)
        trees = SourceTree(tree[:, 0, :keys], tree[:, 1])
    if queries == keys:
        padding = ~real if real is not None else key.new_zeros(len(key), keys).bool()
        return AttentionContext.from_padding(padding, trees, causal)
    found = AttentionContext(keys, key.device, real, trees, queries, causal)
    found.nothing_allowed = False  # each query of a step sees itself
    return found


def check_trees(tree: Tensor) -> None:
    """Refuse sentences whose parents do not form a tree. tree: B 2 T."""
    words, parents = tree.unbind(1)
    columns = torch.arange(tree.size(2), device=tree.device)
    is_word = columns < words.amax(1, keepdim=True)  # the largest number is that of special pieces
    above = parents.clamp(0, tree.size(2) - 1)
    own = is_word & (above == columns)
    for _ in range(doublings(tree.size(2))):
        above = above.gather(1, above)
    outside = (parents < 0) | (
        parents >= torch.where(is_word, is_word.sum(1)[:, None], len(columns))
    )
    lost = is_word & (above != (own * columns).sum(1, keepdim=True))
    wrong = (outside | lost | (words < PADDING) | (words > len(columns))).any(1)
    wrong |= own.sum(1) != is_word.any(1)
    if wrong.any():
        raise InputError(
            f"{TREE}: sentence {int(wrong.int().argmax())} of the batch is no tree; exactly one "
            "word must be its own parent, and the parents of all others must lead to it"
        )


def real_keys(mask: Tensor, causal: bool) -> Tensor:
    """Return which keys are no padding, B K; refuse a mask that says more than that."""
    allowed = mask if mask.dtype == torch.bool else mask == 0
    real = allowed[:, 0, -1]
    expected = real[:, None, None, :]
    if causal:
        rows = torch.arange(mask.size(-2), device=mask.device)[:, None]
        columns = torch.arange(mask.size(-1), device=mask.device)
        expected = expected & (columns <= rows + mask.size(-1) - mask.size(-2))
    seen = expected & real[:, -mask.size(-2) :][:, None, :, None]  # rows of padding do not matter
    given = allowed & real[:, -mask.size(-2) :][:, None, :, None]
    last_is_now = not causal or mask.size(-2) == mask.size(-1) or bool(real[:, -1].all())
    if not (last_is_now and torch.equal(seen.expand_as(given), given)):
        raise InputError(
            "this attention_mask says more than what is padding, or the cache has room to spare, "
            "which mechanisms do not know; give a mask of padding, and take the usual cache"
        )
    return real
