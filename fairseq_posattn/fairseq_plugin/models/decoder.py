"""Attention mechanisms in the self-attention of fairseq's Transformer decoder.

Mechanisms of the cross-attention are implemented in `cross_attention`. Layers without mechanisms
are fairseq's own, unless other layers have mechanisms in their cross-attention. In incremental
decoding, each step has one query, and fairseq's incremental state contains the keys and values of
earlier steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionShape,
    AttentionSpecification,
)
from fairseq_posattn.core.attention.brackets import CLOSING, OPENING, depths
from fairseq_posattn.core.attention.tree_walk import alignment_of
from fairseq_posattn.core.positions import PositionShape
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.fairseq_plugin.models.beams import BEAMS, SENTENCES, Beams, share_keys
from fairseq_posattn.fairseq_plugin.models.causal_attention import CausalSelfAttention
from fairseq_posattn.fairseq_plugin.models.config import layer_numbers, wrapped
from fairseq_posattn.fairseq_plugin.models.cross_attention import (
    CrossAttention,
    check_cross,
    cross_shape,
    cross_specification,
    with_context,
)
from fairseq_posattn.fairseq_plugin.models.fast_linear import forget_old_weights, use_fast_linear
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

    shares_keys = False  # whether the hypotheses of a sentence share keys and values

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
            forget_old_weights(self)
        if incremental_state is not None and encoder_out is not None:
            self.prepare_beams(prev_output_tokens, encoder_out, incremental_state)
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

    def prepare_beams(self, pieces: Tensor, encoder_out: dict, incremental_state: dict) -> None:
        """Let the hypotheses of a sentence share keys and values, after `make_generation_fast_`."""
        sentences = encoder_out.get(SENTENCES)
        if not incremental_state and self.shares_keys and sentences and pieces.size(1) == 1:
            beams = None if torch.is_grad_enabled() else Beams.of(sentences[0])
            if beams is not None:
                incremental_state[BEAMS] = beams
        if BEAMS in incremental_state:
            source_padding = encoder_out["encoder_padding_mask"][0]
            incremental_state[BEAMS].step(pieces.eq(self.padding_idx), source_padding)

    def reorder_incremental_state_scripting(self, incremental_state, new_order):
        """Reorder the incremental state for the next step of beam search.

        On a CPU, nothing is copied if the order is unchanged, as in greedy search. On a GPU,
        checking the order would require a synchronisation.
        """
        beams = incremental_state.get(BEAMS)
        if beams is not None:
            beams.reorder(new_order)
        elif new_order.device.type == "cpu" and len(self.layers):
            keys = self.layers[0].self_attn._get_input_buffer(incremental_state).get("prev_key")
            if keys is not None and torch.equal(new_order, torch.arange(len(keys))):
                return
        super().reorder_incremental_state_scripting(incremental_state, new_order)

    def make_generation_fast_(self, **_) -> None:
        """Prepare for translation; fairseq calls this before the first sentence."""
        use_fast_linear(self)
        share_keys(self)
        self.shares_keys = True

    def upgrade_state_dict_named(self, state_dict, name):
        """Add the parameters that a stock checkpoint lacks, for --finetune-from-model."""
        super().upgrade_state_dict_named(state_dict, name)
        if isinstance(self.embed_positions, TargetPositions):
            take_over_table(state_dict, f"{name}.embed_positions")
        fit_state(state_dict, self, name, bool(self.cfg.decoder.layers_to_keep))
        return state_dict


def position_shape(cfg) -> PositionShape:
    return PositionShape(cfg.decoder.embed_dim, cfg.max_target_positions)
