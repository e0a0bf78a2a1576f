"""Attention mechanisms in the cross-attention of fairseq's decoder.

fairseq's decoder passes the source padding mask to the cross-attention of each layer. With
--cross-attention, a `CrossContext` is passed instead of this mask. Therefore no state is kept
between calls, and layers that activation checkpointing recomputes receive the same context.
"""

from dataclasses import fields
from typing import Any

from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionShape,
    CrossContext,
    CrossSpecification,
    Mechanism,
    QKVTransform,
)
from fairseq_posattn.core.attention.pipeline import (
    attend_transformed,
    of_stage,
    transformed,
    transformed_queries,
)
from fairseq_posattn.core.attention.tree_walk import TreeWalk
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.core.specification import SpecificationError

# keys of encoder_out
TREE = "source_tree"
EMPTY = "source_empty"  # whether the batch contains an empty source
EARLIER = "earlier"  # the key of the incremental state of mechanisms


class CrossAttention(MultiheadAttention):
    """Cross-attention with mechanisms, and with fairseq's parameters and key-value cache."""

    def __init__(self, cfg, mechanisms):
        super().__init__(
            cfg.decoder.embed_dim,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
        )
        self.dropout_module.module_name = "MultiheadAttention"  # for --retain-dropout-modules
        self.mechanisms = nn.ModuleDict({m.name: m for m in mechanisms})

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: CrossContext,
        incremental_state=None,
        need_weights: bool = True,
        static_kv: bool = True,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query`, of shape (T, B, C), to the encoder's output, of shape (S, B, E).

        Return the output, of shape (T, B, C), and the attention weights, or None if they are not
        requested. The weights are averaged over the heads and have the shape (B, T, S). With
        `need_head_weights`, they are not averaged and have the shape (H, B, T, S).

        In incremental decoding, the keys and values of the first step are reused.
        """
        asked_for = need_weights or need_head_weights
        mechanisms = of_stage(self.mechanisms.values(), Mechanism)  # all of them
        transforms, ctx = of_stage(mechanisms, QKVTransform), key_padding_mask
        memory = {} if incremental_state is None else self._get_input_buffer(incremental_state)
        ctx.memory = None if incremental_state is None else self.earlier(incremental_state)
        q = self.split(self.q_proj(query))
        if "prev_key" in memory:
            k, v = memory["prev_key"], memory["prev_value"]
            for transform in transforms:
                q = transformed_queries(transform, q, k, v, ctx)
        else:
            k, v = self.split(self.k_proj(key)), self.split(self.v_proj(value))
            for transform in transforms:
                q, k, v = transformed(transform, q, k, v, ctx)
            if incremental_state is not None:
                self._set_input_buffer(incremental_state, {"prev_key": k, "prev_value": v})
        # with one query on a CPU, separate operations are faster than torch's fused kernel
        singly = asked_for or (query.size(0) == 1 and query.device.type == "cpu")
        out, weights = attend_transformed(q, k, v, ctx, mechanisms, self.dropout_module, singly)
        if ctx.memory:
            self.set_incremental_state(incremental_state, EARLIER, ctx.memory)
        out = self.out_proj(out.permute(2, 0, 1, 3).reshape(query.shape))
        if not asked_for:
            return out, None
        if weights is not None:
            weights = weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)
        return out, weights

    def earlier(self, incremental_state) -> dict[str, Tensor]:
        return self.get_incremental_state(incremental_state, EARLIER) or {}

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Reorder the cached keys, values and mechanism states for the next step of beam search."""
        if kept := self.earlier(incremental_state):
            kept = {name: x.index_select(0, new_order) for name, x in kept.items()}
            self.set_incremental_state(incremental_state, EARLIER, kept)
        return super().reorder_incremental_state(incremental_state, new_order)

    def split(self, x: Tensor) -> Tensor:
        """Split `x`, of shape (T, B, C), into heads; return a tensor of shape (B, H, T, D)."""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)


def cross_specification(cfg) -> CrossSpecification:
    """Return the specification of --cross-attention, which is empty for older checkpoints."""
    return CrossSpecification(getattr(cfg, "cross_attention", None) or "")


def check_cross(cross: CrossSpecification, cfg, no_encoder_attn: bool) -> None:
    """Raise a SpecificationError for mechanisms that are incompatible with the model."""
    if not cross.uses:
        return
    if no_encoder_attn or cfg.cross_self_attention:
        other = "--no-cross-attention" if no_encoder_attn else "--cross-self-attention"
        raise SpecificationError(
            f"--cross-attention '{cross}' cannot be combined with {other}; use only one of them"
        )
    if cfg.checkpoint_activations and any(use.mechanism is TreeWalk for use in cross.uses):
        raise SpecificationError(
            "'tree_walk' cannot be combined with --checkpoint-activations, because its loss "
            "needs the attention weights of the forward pass; omit --checkpoint-activations"
        )
    if not cfg.decoder.layers_to_keep:  # a pruned model was checked before it was pruned
        cross.check(cfg.decoder.layers, cross_shape(cfg))


def cross_shape(cfg) -> AttentionShape:
    heads, width = cfg.decoder.attention_heads, cfg.decoder.embed_dim
    return AttentionShape(heads, width // heads, cfg.max_source_positions)


def with_context(
    encoder_out: dict,
    target_padding: Tensor,
    queries: int | None = None,
    brackets: Tensor | None = None,
) -> dict:
    """Return the encoder's output, with its padding mask replaced by a `CrossContext`.

    target_padding: the padding mask of the target so far, of shape (B, T).

    For the other arguments, see `CrossContext.between`.
    """
    source_padding = encoder_out["encoder_padding_mask"][0]
    tree, empty = (encoder_out.get(key, [None])[0] for key in (TREE, EMPTY))
    ctx = CrossContext.between(source_padding, target_padding, queries, tree, empty, brackets)
    return {**encoder_out, "encoder_padding_mask": [ctx]}


def reordered(tree: SourceTree, order: Tensor) -> SourceTree:
    """Select the trees of the sentences with the indices `order`, for beam search.

    Precomputed tree depths are also selected, so that they need not be recomputed in each step.
    """
    values: dict[str, Any] = {field.name: getattr(tree, field.name) for field in fields(tree)}
    for name, value in values.items():
        if isinstance(value, Tensor):  # labels: (2, B, W); others are batch-first
            values[name] = value.index_select(1 if name == "labels" else 0, order)
    found = SourceTree(**values)
    if "depths" in vars(tree):
        found.depths = tree.depths.index_select(0, order)
    return found
