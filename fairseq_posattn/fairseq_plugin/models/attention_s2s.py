"""The attention_s2s model: an LSTM encoder-decoder with positional, content or no attention.

It implements the model in Section 4.1 of Dagan (2019) and that model's two baselines. The decoder's
LSTM reads the previous word and attends to the encoder states. It predicts the next word from
tanh(W [c_t; h_t]), where h_t is the LSTM's state and c_t is the context vector.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
)
from torch import Tensor, nn

from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.recurrent import (
    ContentSourceAttention,
    PositionalSourceAttention,
    Source,
)
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.preset_files import read_group, register_preset

POSITIONAL, CONTENT, NONE = ATTENTIONS = ("positional", "content", "none")
ENCODER, ZEROS = STARTS = ("encoder", "zeros")


@dataclass
class AttentionS2SConfig(FairseqDataclass):
    """Options of the attention_s2s model."""

    attention: ChoiceEnum(ATTENTIONS) = option(  # type: ignore[valid-type]  # fairseq calls it
        POSITIONAL,
        "compute attention weights from positions (default) or content, or use no attention",
    )
    width: int = option(128, "set the width of embeddings and LSTM states (default: 128)")
    layers: int = option(
        1, "set the number of layers of the encoder, and of the decoder (default: 1)"
    )
    dropout: float = option(
        0.3,
        "set the dropout of embeddings, between layers, and before the output layer (default: 0.3)",
    )
    decoder_start: Optional[ChoiceEnum(STARTS)] = option(  # type: ignore[valid-type]  # fairseq calls it
        None,
        "initialise the decoder with the encoder's last state, or with zeros; the default is zeros "
        "with attention, and the encoder's state without attention",
    )
    states_only: bool = option(
        False, "attend to the LSTM's states alone, without adding the word embeddings to them"
    )
    position_width: int = option(
        20, "positional attention: set the width of the LSTM that predicts mu and sigma"
    )
    clamp: ChoiceEnum(["none", "unit"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "none",
        "positional attention: do not clamp mu (none, the default), or clamp it to [0, 1] (unit)",
    )
    sigma_floor: float = option(0.0, "positional attention: set a lower bound for sigma")
    epsilon: float = option(1e-3, "positional attention: add this number to 2 sigma^2")
    max_source_positions: int = option(
        1024, "set the maximum number of pieces of a source sentence (default: 1024)"
    )
    max_target_positions: int = option(
        1024, "set the maximum number of pieces of a target sentence (default: 1024)"
    )


class EncodedSource(NamedTuple):
    """The encoder's output; all tensors are batch-first."""

    states: Tensor  # B S C, where S is the length of src_tokens
    real: Tensor  # B S, bool: False for padding
    hidden: Tensor  # B layers C, after the last real token
    cell: Tensor  # B layers C


class RecurrentEncoder(FairseqEncoder):
    """Encodes a source sentence with a unidirectional LSTM."""

    def __init__(self, cfg: AttentionS2SConfig, dictionary):
        super().__init__(dictionary)
        self.cfg = cfg
        self.embed_tokens = nn.Embedding(len(dictionary), cfg.width, dictionary.pad())
        self.lstm = build_lstm(cfg)

    def forward(self, src_tokens, src_lengths=None, source_tree=None) -> EncodedSource:
        """Encode a source of shape (B, S), which may contain padding at any position.

        Trees are ignored.
        """
        real = src_tokens.ne(self.dictionary.pad())
        x = F.dropout(self.embed_tokens(src_tokens), self.cfg.dropout, self.training)  # B S C
        # move padding to the end, so that the LSTM does not read it
        order = (~real).long().argsort(dim=1, stable=True)  # B S
        states, hidden, cell = self.run_lstm(along(x, order), real.sum(dim=1))
        states = along(states, order.argsort(dim=1))  # restore the original order
        if not self.cfg.states_only:
            states = states + x
        return EncodedSource(states, real, hidden, cell)

    def run_lstm(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run the LSTM on `x`, of shape (B, S, C), for sentences with the given lengths.

        Return the states of all positions, of shape (B, S, C), the last hidden state and the last
        cell state. The states of padding are zero.
        """
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        packed, (hidden, cell) = self.lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            packed, batch_first=True, total_length=x.size(1)
        )
        return states, hidden.transpose(0, 1), cell.transpose(0, 1)

    def reorder_encoder_out(self, encoder_out: EncodedSource, new_order) -> EncodedSource:
        return EncodedSource(*(part.index_select(0, new_order) for part in encoder_out))

    def max_positions(self):
        return self.cfg.max_source_positions


class RecurrentDecoder(FairseqIncrementalDecoder):
    """Predicts the next word from an LSTM state and, with attention, a context vector."""

    def __init__(self, cfg: AttentionS2SConfig, dictionary):
        super().__init__(dictionary)
        self.cfg = cfg
        self.embed_tokens = nn.Embedding(len(dictionary), cfg.width, dictionary.pad())
        self.lstm = build_lstm(cfg)
        self.attention = build_attention(cfg)
        # a linear layer replaces the attention in a model without attention
        without = cfg.attention == NONE
        self.combine = nn.Linear(cfg.width, cfg.width) if without else nn.Identity()
        self.output_projection = nn.Linear(cfg.width, len(dictionary))

    def forward(
        self,
        prev_output_tokens,
        encoder_out: Optional[EncodedSource] = None,
        incremental_state=None,
        features_only: bool = False,
        **unused,
    ):
        """Return logits, of shape (B, T, V), and attention weights, of shape (B, T, S).

        prev_output_tokens: tokens of shape (B, T); incremental decoding reads only the last column.
        """
        assert encoder_out is not None  # fairseq always passes it
        past = self.get_incremental_state(incremental_state or {}, "past")
        tokens = prev_output_tokens if past is None else prev_output_tokens[:, -1:]
        x = F.dropout(self.embed_tokens(tokens), self.cfg.dropout, self.training)
        h, state = self.run_lstm(x, encoder_out, past)  # B T C
        features, weights, attended = self.attend(h, encoder_out, past)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "past", {**state, **attended})
        features = F.dropout(features, self.cfg.dropout, self.training)
        out = features if features_only else self.output_layer(features)
        return out, {"attn": [weights]}

    def run_lstm(self, x: Tensor, source: EncodedSource, past) -> tuple[Tensor, dict]:
        """Return the LSTM's outputs, of shape (B, T, C), and its last state.

        past: the state after the previous decoding step; if None, --decoder-start determines the
            initial state.
        """
        if past is not None:
            start = past["decoder.hidden"], past["decoder.cell"]
        elif self.cfg.decoder_start == ENCODER:
            start = source.hidden, source.cell
        else:
            start = torch.zeros_like(source.hidden), torch.zeros_like(source.cell)
        h, (hidden, cell) = self.lstm(x, tuple(s.transpose(0, 1).contiguous() for s in start))
        return h, {
            "decoder.hidden": hidden.transpose(0, 1),
            "decoder.cell": cell.transpose(0, 1),
        }

    def attend(self, h: Tensor, source: EncodedSource, past):
        """Return features, attention weights (or None) and the attention state.

        The features have the shape (B, T, C), and the weights the shape (B, T, S).
        """
        if self.attention is None:
            return torch.tanh(self.combine(h)), None, {}
        return self.attention(h, Source(source.states, source.real), past)

    def output_layer(self, features, **unused):
        return self.output_projection(features)

    def reorder_incremental_state(self, incremental_state, new_order):
        past = self.get_incremental_state(incremental_state, "past")
        if past is not None:
            past = {name: tensor.index_select(0, new_order) for name, tensor in past.items()}
            self.set_incremental_state(incremental_state, "past", past)

    def max_positions(self):
        return self.cfg.max_target_positions


@register_model("attention_s2s", dataclass=AttentionS2SConfig)
class AttentionS2SModel(FairseqEncoderDecoderModel):
    """Translates with an LSTM encoder and an LSTM decoder.

    Example: `posattn train DATA --arch positional_attention_s2s --max-tokens 4096`
    """

    @classmethod
    def build_model(cls, cfg, task):
        refuse_what_cannot_work(cfg)
        if cfg.decoder_start is None:
            cfg.decoder_start = ENCODER if cfg.attention == NONE else ZEROS
        return cls(
            RecurrentEncoder(cfg, task.source_dictionary),
            RecurrentDecoder(cfg, task.target_dictionary),
        )

    def forward(self, src_tokens, src_lengths, prev_output_tokens, source_tree=None, **unused):
        return self.decoder(prev_output_tokens, self.encoder(src_tokens, src_lengths))


def refuse_what_cannot_work(cfg) -> None:
    """Raise an InputError for options that prevent building or training the model."""
    if cfg.attention == NONE and cfg.decoder_start == ZEROS:
        raise InputError(
            "--attention none --decoder-start zeros hides the source from the decoder; omit "
            "--decoder-start"
        )
    for name in ("width", "layers", "position_width"):
        if getattr(cfg, name) < 1:
            raise InputError(
                f"--{name.replace('_', '-')} {getattr(cfg, name)} is too small; give at least 1"
            )


def build_lstm(cfg: AttentionS2SConfig) -> nn.LSTM:
    between = cfg.dropout if cfg.layers > 1 else 0.0
    return nn.LSTM(cfg.width, cfg.width, cfg.layers, batch_first=True, dropout=between)


def build_attention(cfg: AttentionS2SConfig) -> Optional[nn.Module]:
    if cfg.attention == NONE:
        return None
    if cfg.attention == CONTENT:
        return ContentSourceAttention(cfg.width)
    return PositionalSourceAttention(
        cfg.width, cfg.position_width, cfg.clamp, cfg.sigma_floor, cfg.epsilon
    )


def along(x: Tensor, order: Tensor) -> Tensor:
    """Reorder the positions of `x`, of shape (B, S, C), by the indices `order`, of shape (B, S)."""
    return x.gather(1, order[..., None].expand_as(x))


for _name, _preset in read_group("s2s").items():
    register_preset("attention_s2s", _name, _preset)
