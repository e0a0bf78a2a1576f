"""Compute the attention of Hugging Face models with the mechanisms of this package.

`register` adds the function `attention` to transformers' AttentionInterface. `State` gives the
layers access to the trees of the current batch.
"""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_posattn.core.ancestors import doublings
from fairseq_posattn.core.attention import AttentionContext, AttentionShape
from fairseq_posattn.core.attention.kernels import scaled_scores, softmax_weights
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.attention.pipeline import attend
from fairseq_posattn.core.attention.stages import ScoreBias
from fairseq_posattn.core.source_tree import PADDING, SourceTree
from fairseq_posattn.errors import InputError

NAME = "posattn"  # names the attention implementation, the modules and the config key
TREE = "source_tree"


@dataclass
class State:
    """Data of the current batch that all layers of a model share.

    trees: the tensor `source_tree` of each device; DataParallel uses several devices.
    contexts: the attention contexts; the key consists of the id of the attention mask, the number
        of queries, the number of keys, whether the attention is causal, and the device.
    generating: whether `generate` is running.
    """

    trees: dict[torch.device, Tensor | None] = field(default_factory=dict)
    contexts: dict[Any, tuple[Any, AttentionContext]] = field(default_factory=dict)
    generating: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Exclude the data of the current batch when a model is copied or pickled."""
        return State, ()

    def begin(self, tree: Tensor | None, batch: Iterable[Any]) -> None:
        """Store the trees of a new batch, and discard the contexts of the previous batch.

        tree: `source_tree`, of shape (B, 2, T), or None.
        batch: the other arguments of the model; if `tree` is None, the first tensor among them
            determines the device.
        """
        given = [one for one in (tree, *batch) if isinstance(one, Tensor)]
        device = given[0].device if given else torch.device("cpu")
        self.trees[device] = tree
        self.forget(device)

    def forget(self, device: torch.device) -> None:
        """Discard the contexts of this device.

        A new dictionary is created, because gradient checkpointing may recompute layers later with
        the contexts in the old one.
        """
        self.contexts = {key: found for key, found in self.contexts.items() if key[-1] != device}

    def tree_on(self, device: torch.device) -> Tensor | None:
        """Return the trees, moved to the device of a layer if the batch is on another device."""
        if device in self.trees or len(self.trees) != 1:
            return self.trees.get(device)
        [tree] = self.trees.values()
        return None if tree is None else tree.to(device)


AGAIN: ContextVar[State | None] = ContextVar("AGAIN", default=None)  # set during recomputation


def bind_checkpoints(model: Any, state: State) -> None:
    """Make gradient checkpointing recompute each layer with the trees of its original batch."""
    for module in model.modules():
        if hasattr(module, "_gradient_checkpointing_func"):  # checkpointing is already enabled
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
    name = "gradient_checkpointing_func"
    if name in kwargs:
        kwargs[name] = partial(run_bound, state, kwargs[name])
    set_checkpointing(*args, **kwargs)


def run_bound(
    state: State, checkpoint: Callable[..., Any], layer: Callable[..., Any], *args: Any
) -> Any:
    """Run a layer with gradient checkpointing; it is recomputed with the current batch's trees."""
    now = State(dict(state.trees), state.contexts)

    def again(*args: Any) -> Any:
        token = AGAIN.set(now)
        try:
            return layer(*args)
        finally:
            AGAIN.reset(token)

    return checkpoint(again, *args)


def register() -> None:
    """Register `attention` in transformers as the attention implementation `posattn`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


class Given(ScoreBias):
    """Adds the model's own position bias, for example T5's, to the scores."""

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
    """Return the attention output, of shape (B, Q, H, D), and the attention weights.

    The signature is that of transformers' AttentionInterface. A module without mechanisms computes
    plain scaled dot-product attention.
    """
    mechanisms = getattr(module, NAME, None)
    wanted = bool(kwargs.get("output_attentions", False) or module.config.output_attentions)
    if mechanisms is None and not wanted:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        how = {"dropout": dropout, "scaling": scaling, "position_bias": position_bias, **kwargs}
        return sdpa_attention_forward(module, query, key, value, attention_mask, **how)
    width = query.size(-1)
    if scaling is not None and scaling != width**-0.5:  # attend itself divides by sqrt(d)
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
    """Return the output and weights of plain attention; torch's fused kernel returns no weights."""
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
    """Return the attention context of the current batch.

    Layers with the same mask and the same sizes share one context.
    """
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
                f"{TREE} has the shape {list(tree.shape)} and the type {tree.dtype}, but must be "
                "an integer tensor of shape (B, 2, T); create it with TreeCollator"
            )
        if tree.size(-1) < keys or len(tree) != len(key):
            raise InputError(
                f"{TREE} has the shape (B={len(tree)}, 2, T={tree.size(-1)}), but the batch has "
                f"{len(key)} sentences of {keys} tokens; create {TREE} with TreeCollator"
            )
        check_trees(tree)
        trees = SourceTree(tree[:, 0, :keys], tree[:, 1])
    if queries == keys:
        padding = ~real if real is not None else key.new_zeros(len(key), keys).bool()
        return AttentionContext.from_padding(padding, trees, causal)
    found = AttentionContext(keys, key.device, real, trees, queries, causal)
    found.nothing_allowed = False  # in incremental decoding, each query attends to itself
    return found


def check_trees(tree: Tensor) -> None:
    """Raise an InputError if the parents of a sentence do not form a tree.

    tree: the integer tensor `source_tree`, of shape (B, 2, T).
    """
    words, parents = tree.unbind(1)
    columns = torch.arange(tree.size(2), device=tree.device)
    is_word = columns < words.amax(1, keepdim=True)  # special pieces have the largest word index
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
            f"{TREE}: sentence {int(wrong.int().argmax())} of the batch is not a tree; exactly "
            "one word must be its own parent (the root), and all others must descend from it"
        )


def real_keys(mask: Tensor, causal: bool) -> Tensor:
    """Return a mask of shape (B, K), which is True for keys that are not padding.

    Raise an InputError if `mask` hides keys other than padding or, in causal attention, later keys.
    """
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
            "attention_mask hides more than padding, or the key-value cache is preallocated, which "
            "mechanisms do not support; pass a padding mask and use the default dynamic cache"
        )
    return real
