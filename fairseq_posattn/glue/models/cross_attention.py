"""Put mechanisms of the attention core into the cross-attention of fairseq's decoder.

fairseq's decoder hands each layer the padding of the source, and its cross-attention gets it as it
is. In a decoder with --cross-attention a `CrossContext` travels there in its place, so nothing has
to be kept between calls, and a layer that runs twice under activation checkpointing sees the same.
"""

from __future__ import annotations

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

# the keys of encoder_out under which what the decoder reads travels to it
TREE = "source_tree"
EMPTY = "source_empty"  # whether some source has no piece
EARLIER = "earlier"  # the key of the incremental state for what mechanisms keep


class CrossAttention(MultiheadAttention):
    """This class has the parameters, and the cached keys and values, of fairseq's own
    cross-attention; the attention core does the rest."""

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
        """Attend from `query`, T B C, to the output of the encoder, S B E.

        Step by step the transformed keys and values of the first step are taken. Return T B C and,
        if they are asked for, the mean weights B T S or those of each head H B T S.
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
        # single steps are faster than torch's kernel with one query on a CPU
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
        """Return what mechanisms have kept of the steps before."""
        return self.get_incremental_state(incremental_state, EARLIER) or {}

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Keep what mechanisms know of the hypotheses with which beam search goes on."""
        if kept := self.earlier(incremental_state):
            kept = {name: x.index_select(0, new_order) for name, x in kept.items()}
            self.set_incremental_state(incremental_state, EARLIER, kept)
        return super().reorder_incremental_state(incremental_state, new_order)

    def split(self, x: Tensor) -> Tensor:
        """Return x, T B C, as B H T D."""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)


def cross_specification(cfg) -> CrossSpecification:
    """Return what --cross-attention says; checkpoints of before have no such option."""
    return CrossSpecification(getattr(cfg, "cross_attention", None) or "")


def check_cross(cross: CrossSpecification, cfg, no_encoder_attn: bool) -> None:
    """Refuse mechanisms that do not fit the shape, or that other options exclude."""
    if not cross.uses:
        return
    if no_encoder_attn or cfg.cross_self_attention:
        other = "--no-cross-attention" if no_encoder_attn else "--cross-self-attention"
        raise SpecificationError(
            f"--cross-attention '{cross}' and {other} exclude each other: leave one out"
        )
    if cfg.checkpoint_activations and any(use.mechanism is TreeWalk for use in cross.uses):
        raise SpecificationError(
            "'tree_walk' keeps where it looks for the loss, and --checkpoint-activations would "
            "compute it a second time without it: leave that option out"
        )
    if not cfg.decoder.layers_to_keep:  # a pruned model was checked before it was pruned
        cross.check(cfg.decoder.layers, cross_shape(cfg))


def cross_shape(cfg) -> AttentionShape:
    """Return the heads, their width and the longest source of the decoder's cross-attention."""
    heads, width = cfg.decoder.attention_heads, cfg.decoder.embed_dim
    return AttentionShape(heads, width // heads, cfg.max_source_positions)


def with_context(
    encoder_out: dict,
    target_padding: Tensor,
    queries: int | None = None,
    brackets: Tensor | None = None,
) -> dict:
    """Return the output of an encoder with a `CrossContext` in the place of its padding.

    target_padding: bool, B T, of all that is written until now; the others are as in the context.
    """
    source_padding = encoder_out["encoder_padding_mask"][0]
    tree, empty = (encoder_out.get(key, [None])[0] for key in (TREE, EMPTY))
    ctx = CrossContext.between(source_padding, target_padding, queries, tree, empty, brackets)
    return {**encoder_out, "encoder_padding_mask": [ctx]}


def reordered(tree: SourceTree, order: Tensor) -> SourceTree:
    """Return the trees of other sentences of the batch, as beam search asks for.

    Depths, if they are known, are not computed again in each step.
    """
    values: dict[str, Any] = {field.name: getattr(tree, field.name) for field in fields(tree)}
    for name, value in values.items():
        if isinstance(value, Tensor):  # labels are 2 B W, and all others have the batch first
            values[name] = value.index_select(1 if name == "labels" else 0, order)
    found = SourceTree(**values)
    if "depths" in vars(tree):
        found.depths = tree.depths.index_select(0, order)
    return found
