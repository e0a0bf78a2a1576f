"""Attention mechanisms in the self-attention of fairseq's Transformer decoder.

Mechanisms of the cross-attention are implemented in `cross_attention`. Layers without mechanisms
are fairseq's own, unless other layers have mechanisms in their cross-attention. In incremental
decoding, each step has one query, and fairseq's incremental state contains the keys and values of
earlier steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    MultiheadSelfAttention,
)
from fairseq_posattn.core.attention.brackets import CLOSING, OPENING, depths
from fairseq_posattn.core.attention.tree_walk import alignment_of
from fairseq_posattn.core.positions import PositionShape
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.fairseq_plugin.models.config import layer_numbers, wrapped
from fairseq_posattn.fairseq_plugin.models.cross_attention import (
    CrossAttention,
    check_cross,
    cross_shape,
    cross_specification,
    with_context,
)
from fairseq_posattn.fairseq_plugin.models.int8 import forget, pack
from fairseq_posattn.fairseq_plugin.models.positions import (
    TargetPositions,
    positions_in_use,
    take_over_table,
)
from fairseq_posattn.fairseq_plugin.models.stock_checkpoints import fit_state


@dataclass
class Target:
    """Information about a batch's target sentences that all layers share.

    pair: the dictionary indices of the opening and the closing bracket; None if either is missing.
    brackets: the number of open brackets after each piece, of shape (B, K); None if no mechanism
        reads it.
    """

    pair: tuple[int, int] | None = None
    brackets: Tensor | None = None

    @classmethod
    def of(cls, dictionary) -> Target:
        opening, closing = map(dictionary.index, (OPENING, CLOSING))
        has_both = dictionary.unk() not in (opening, closing)
        return cls((opening, closing) if has_both else None)

    def read(self, pieces: Tensor) -> None:
        """Update `brackets` with the target pieces so far, of shape (B, K)."""
        if self.pair:
            self.brackets = depths(*(pieces.eq(number) for number in self.pair))


@with_incremental_state
class CausalSelfAttention(MultiheadSelfAttention):
    """Causal self-attention with mechanisms, for fairseq's decoder layer."""

    get_incremental_state: Callable  # the decorator adds both methods
    set_incremental_state: Callable

    def __init__(self, cfg, mechanisms, target):
        self.target = target
        heads, width = cfg.decoder.attention_heads, cfg.decoder.embed_dim
        dropout = FairseqDropout(cfg.attention_dropout, module_name="MultiheadAttention")
        super().__init__(width, heads, mechanisms, dropout)
        self.num_heads, self.head_dim = heads, width // heads

    def forward(  # type: ignore[override]  # fairseq's decoder layer passes these arguments
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        incremental_state=None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from `query`, of shape (T, B, C), to itself and to earlier decoding steps.

        Return the output, of shape (T, B, C), and the attention weights, or None if they are not
        requested. The weights are averaged over the heads and have the shape (B, T, S). With
        `need_head_weights`, they are not averaged and have the shape (H, B, T, S).
        """
        q, k, v = self.project(query)  # B H T D
        padding = key_padding_mask
        before = self._get_input_buffer(incremental_state)
        if "prev_key" in before:
            k = torch.cat([before["prev_key"], k], dim=2)
            v = torch.cat([before["prev_value"], v], dim=2)
            padding = joined_padding(before.get("prev_key_padding_mask"), padding, k)
        state = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": padding}
        self._set_input_buffer(incremental_state, state)
        causal = attn_mask is not None or incremental_state is not None
        ctx = AttentionContext(
            *(k.size(2), k.device, None if padding is None else ~padding, None, q.size(2), causal),
            brackets=self.target.brackets,
        )
        ctx.nothing_allowed = False  # each target begins with a real token, </s>
        out, weights = self.attend(query, q, k, v, ctx, need_weights or need_head_weights)
        if weights is not None:
            weights = weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)
        return out, weights

    def _get_input_buffer(self, incremental_state) -> dict:
        return self.get_incremental_state(incremental_state, "attn_state") or {}

    def _set_input_buffer(self, incremental_state, buffer: dict):
        return self.set_incremental_state(incremental_state, "attn_state", buffer)

    def reorder_incremental_state(self, incremental_state, new_order: Tensor):
        """Reorder the cached keys and values for the next step of beam search."""
        buffer = self._get_input_buffer(incremental_state)
        if buffer:
            chosen = {
                key: None if value is None else value.index_select(0, new_order)
                for key, value in buffer.items()
            }
            self._set_input_buffer(incremental_state, chosen)
        return incremental_state


def joined_padding(before: Tensor | None, now: Tensor | None, keys: Tensor) -> Tensor | None:
    """Concatenate the padding masks of earlier steps and of this step into a mask of shape (B, S).

    None means that there is no padding.
    """
    if before is None and now is None:
        return None
    padding = keys.new_zeros(keys.size(0), keys.size(2)).bool()
    if before is not None:
        padding[:, : before.size(1)] = before
    if now is not None:
        padding[:, -now.size(1) :] = now
    return padding


class PosattnDecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer, with mechanisms in its attention.

    mechanisms: mechanisms of the self-attention; if empty, fairseq's self-attention is used.
    crossing: mechanisms of the cross-attention; if None, fairseq's cross-attention is used.
    target: information about the target sentences, which all layers share.
    """

    def __init__(self, cfg, no_encoder_attn, mechanisms, crossing=None, target=None):
        self.mechanisms, self.crossing, self.target = mechanisms, crossing, target
        super().__init__(cfg, no_encoder_attn)
        del self.mechanisms, self.crossing, self.target  # the attention modules own them now
        for dropout in (self.dropout_module, self.activation_dropout_module):
            dropout.module_name = "TransformerDecoderLayerBase"  # for --retain-dropout-modules

    def build_self_attention(self, embed_dim, cfg, add_bias_kv=False, add_zero_attn=False):
        if not self.mechanisms:
            return super().build_self_attention(embed_dim, cfg, add_bias_kv, add_zero_attn)
        return CausalSelfAttention(cfg, self.mechanisms, self.target)

    def build_encoder_attention(self, embed_dim, cfg):
        if self.crossing is None:
            return super().build_encoder_attention(embed_dim, cfg)
        return CrossAttention(cfg, self.crossing)


class PosattnDecoder(TransformerDecoderBase):
    """fairseq's Transformer decoder with configurable positions and attention mechanisms."""

    def __init__(self, cfg, dictionary, embed_tokens, no_encoder_attn=False, **kwargs):
        self.attention = AttentionSpecification(getattr(cfg, "decoder_attention", None) or "")
        self.cross = cross_specification(cfg)
        self.positions = positions_in_use(cfg, "decoder")
        self.target = Target.of(dictionary)
        self.check(cfg)
        check_cross(self.cross, cfg, no_encoder_attn)
        self.numbers = layer_numbers(cfg.decoder)
        self.of_all_layers: dict[str, nn.Module] = {}  # filled by build_decoder_layer
        self.across_all_layers: dict[str, nn.Module] = {}
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn, **kwargs)
        self.dropout_module.module_name = "TransformerDecoder"  # for --retain-dropout-modules
        self.embed_positions = self.target_positions(position_shape(cfg))
        self.shared_mechanisms = nn.ModuleDict(self.of_all_layers)
        self.shared_cross_mechanisms = nn.ModuleDict(self.across_all_layers)
        del self.of_all_layers, self.across_all_layers

    def target_positions(self, shape: PositionShape) -> nn.Module | None:
        """Return the position module, which is fairseq's own unless other positions are added."""
        table = self.embed_positions if self.positions.sequence else None
        added = self.positions.build(shape)
        if not added:
            return table
        return TargetPositions(table, added, self.padding_idx, shape.max_positions)

    def check(self, cfg) -> None:
        """Raise a SpecificationError for positions or mechanisms that the decoder cannot use.

        Positions and mechanisms must be causal and support the model's shape and options.
        """
        self.positions.check_causal()
        self.positions.check(position_shape(cfg))
        self.attention.check_causal()
        if not cfg.decoder.layers_to_keep:  # a pruned model was checked before it was pruned
            self.attention.check(cfg.decoder.layers, self.attention_shape(cfg))
        if self.attention.uses and cfg.cross_self_attention:
            raise SpecificationError(
                f"--decoder-attention '{self.attention}' cannot be combined with "
                "--cross-self-attention; use only one of them"
            )
        if self.attention.uses and cfg.decoder.xformers_att_config:
            raise SpecificationError(
                f"--decoder-attention '{self.attention}' cannot be combined with "
                "--decoder-xformers-att-config; use only one of them"
            )

    def attention_shape(self, cfg) -> AttentionShape:
        heads, width = cfg.decoder.attention_heads, cfg.decoder.embed_dim
        longest, brackets = cfg.max_target_positions, self.target.pair is not None
        return AttentionShape(heads, width // heads, longest, brackets=brackets)

    def build_decoder_layer(self, cfg, no_encoder_attn=False):
        """Build the next layer, which is fairseq's own if no mechanism requires another one."""
        number, shape = self.numbers.pop(0), self.attention_shape(cfg)
        mechanisms = self.attention.build(number, shape, self.of_all_layers)
        crossing = None
        if self.cross.uses:  # layers without mechanisms must be able to read the context, too
            crossing = self.cross.build(number, cross_shape(cfg), self.across_all_layers)
        if not mechanisms and crossing is None:
            return super().build_decoder_layer(cfg, no_encoder_attn)
        own = PosattnDecoderLayer(cfg, no_encoder_attn, mechanisms, crossing, self.target)
        return wrapped(own, cfg)

    def extract_features(
        self, prev_output_tokens, encoder_out=None, incremental_state=None, *args, **options
    ):
        """Return the same values as fairseq's decoder.

        prev_output_tokens: all tokens so far, of shape (B, T), even in incremental decoding.
        """
        looks: list[Tensor] = []
        if not incremental_state:  # a new translation starts
            forget(self)
        if self.attention.reads_brackets or self.cross.reads_brackets:
            self.target.read(prev_output_tokens)
        if self.cross.uses and encoder_out is not None:
            padding = prev_output_tokens.eq(self.padding_idx)
            queries = None if incremental_state is None else 1
            encoder_out = with_context(encoder_out, padding, queries, self.target.brackets)
            looks = encoder_out["encoder_padding_mask"][0].looks
        x, extra = super().extract_features(
            prev_output_tokens, encoder_out, incremental_state, *args, **options
        )
        if looks and incremental_state is None:  # for training with alignments
            extra["attn"] = [alignment_of(looks)]
        return x, extra

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        """Reorder the incremental state for the next step of beam search.

        On a CPU, nothing is copied if the order is unchanged, as in greedy search. On a GPU,
        checking the order would require a synchronisation.
        """
        if new_order.device.type == "cpu" and len(self.layers):
            keys = self.layers[0].self_attn._get_input_buffer(incremental_state).get("prev_key")
            if keys is not None and torch.equal(new_order, torch.arange(len(keys))):
                return
        super().reorder_incremental_state_scripting(incremental_state, new_order)

    def make_generation_fast_(self, **_) -> None:
        """Prepare for translation; fairseq calls this before the first sentence."""
        pack(self)

    def upgrade_state_dict_named(self, state_dict, name):
        """Add the parameters that a stock checkpoint lacks, for --finetune-from-model."""
        super().upgrade_state_dict_named(state_dict, name)
        if isinstance(self.embed_positions, TargetPositions):
            take_over_table(state_dict, f"{name}.embed_positions")
        fit_state(state_dict, self, name, bool(self.cfg.decoder.layers_to_keep))
        return state_dict


def position_shape(cfg) -> PositionShape:
    return PositionShape(cfg.decoder.embed_dim, cfg.max_target_positions)
