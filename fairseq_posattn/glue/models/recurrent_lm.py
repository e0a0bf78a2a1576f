"""Register recurrent_lm, the language models of Dagan (2019), for fairseq's task language_modeling.

The positional model knows N, the length of a sentence, from the first word on, as published. In
generation the length is not known: see --sentence-length.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass
from typing import Optional

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder, FairseqLanguageModel, register_model
from omegaconf import II
from torch import Tensor

from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.recurrent.language_model import (
    ATTENTIONS,
    RecurrentLanguageModel,
    RecurrentShape,
)
from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.models.preset_files import read_group, register_preset
from fairseq_posattn.io.numbers import plain_number

STATE = "recurrent_lm"


@dataclass
class RecurrentLanguageModelConfig(FairseqDataclass):
    """These are the options of the model recurrent_lm."""

    state_attention: ChoiceEnum(list(ATTENTIONS)) = option(  # type: ignore[valid-type]  # fairseq calls it
        "positional", "choose the attention over the states of the LSTM"
    )
    decoder_embed_dim: int = option(400, "set the width that embedding and LSTM share")
    decoder_layers: int = option(2, "set the number of layers of the LSTM")
    decoder_dropout_in: float = option(0.5, "set the dropout after the embedding")
    dropout: float = option(0.2, "set the dropout between layers")
    decoder_dropout_out: float = option(0.5, "set the dropout before the output layer")
    include_current: ChoiceEnum(["yes", "no"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "yes", "attend to the states i <= t (yes, as the authors' program does) or i < t (no)"
    )
    position_clamp: ChoiceEnum(["equation", "text"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "equation",
        "clamp mu as equation 8 is printed, max(mu, t/N), or as its text says, to [0, t/N]",
    )
    position_width: int = option(20, "set the width of the LSTM that finds mu and sigma")
    sigma_floor: float = option(0.0, "set the smallest sigma that is allowed")
    position_epsilon: float = option(1e-3, "add this number to 2 sigma^2 in equation 10")
    sentence_length: str = option(
        "own",
        "set N of the positional model to the length of each sentence, or in "
        "generation to the maximal length (own), always to the maximal length (maximal), or to "
        "a number",
    )
    max_target_positions: Optional[int] = II("task.max_target_positions")
    tokens_per_sample: int = II("task.tokens_per_sample")


class RecurrentDecoder(FairseqIncrementalDecoder):
    """Turns fairseq's batches into what the model reads, and keeps its state in generation."""

    def __init__(self, dictionary, shape: RecurrentShape, sentence_length: str, longest: int):
        super().__init__(dictionary)
        self.model = RecurrentLanguageModel(shape)
        self.sentence_length, self.longest = sentence_length, longest

    def forward(
        self,
        prev_output_tokens,
        encoder_out=None,
        incremental_state=None,
        src_lengths=None,
        **unused,
    ):
        features, extra = self.extract_features(
            prev_output_tokens, incremental_state=incremental_state
        )
        return self.output_layer(features), extra

    def extract_features(
        self, prev_output_tokens, encoder_out=None, incremental_state=None, **unused
    ):
        """Return features, B T C, from tokens, B T. Under `weights` stand the attention weights, B
        T T or None."""
        if incremental_state is not None:
            return self.next_features(prev_output_tokens[:, -1:], incremental_state)
        real = prev_output_tokens.ne(self.dictionary.pad())
        lengths = self.lengths(prev_output_tokens, real.sum(dim=1))
        start = real.int().argmax(dim=1)  # the amount of padding on the left
        if not start.any():
            features, weights, _ = self.model.features(prev_output_tokens, lengths)
            return features, {"attn": [None], "weights": weights}
        features, weights, _ = self.model.features(rolled(prev_output_tokens, start), lengths)
        if weights is not None:
            weights = rolled(rolled(weights, -start).transpose(1, 2), -start).transpose(1, 2)
        return rolled(features, -start), {"attn": [None], "weights": weights}

    def next_features(self, tokens: Tensor, incremental_state):
        """Return the features of one step of generation, from tokens, B 1."""
        state = self.get_incremental_state(incremental_state, STATE)
        lengths = self.lengths(tokens, None)
        features, weights, state = self.model.features(tokens, lengths, state)
        self.set_incremental_state(incremental_state, STATE, state)
        return features, {"attn": [None], "weights": weights}

    def lengths(self, tokens: Tensor, own: Optional[Tensor]) -> Tensor:
        """Return N for each sentence of the batch, B."""
        if self.sentence_length == "own" and own is not None:
            return own.clamp(min=1)
        fixed = self.sentence_length in ("own", "maximal")
        return tokens.new_full((len(tokens),), self.longest if fixed else int(self.sentence_length))

    def reorder_incremental_state(self, incremental_state, new_order):
        state = self.get_incremental_state(incremental_state, STATE)
        if state is not None:
            state = {name: tensor.index_select(0, new_order) for name, tensor in state.items()}
            self.set_incremental_state(incremental_state, STATE, state)

    def output_layer(self, features, **unused):
        return self.model.scores(features)

    def max_positions(self):
        return self.longest


def rolled(x: Tensor, by: Tensor) -> Tensor:
    """Move each row of `x`, B T ..., to the left by its number of steps, B, around the end."""
    steps = (torch.arange(x.size(1), device=x.device) + by[:, None]) % x.size(1)  # B T
    return x[torch.arange(len(x), device=x.device)[:, None], steps]


@register_model("recurrent_lm", dataclass=RecurrentLanguageModelConfig)
class RecurrentLanguageModelForFairseq(FairseqLanguageModel):
    """This class offers the recurrent language model to fairseq's tasks and programs."""

    @classmethod
    def build_model(cls, cfg, task):
        length = cfg.sentence_length
        if length not in ("own", "maximal") and (plain_number(length) or 0) < 1:
            raise InputError(
                f"--sentence-length {length}: expected own, maximal or a number of words"
            )
        longest = getattr(cfg, "max_target_positions", None) or cfg.tokens_per_sample
        dictionary = task.target_dictionary
        if len(dictionary) != len(task.source_dictionary):
            raise InputError(
                "--output-dictionary-size: recurrent_lm ties input and output; leave it out"
            )
        return cls(
            RecurrentDecoder(dictionary, shape_of(cfg, dictionary), cfg.sentence_length, longest)
        )


def shape_of(cfg, dictionary) -> RecurrentShape:
    return RecurrentShape(
        vocabulary=len(dictionary),
        padding=dictionary.pad(),
        width=cfg.decoder_embed_dim,
        layers=cfg.decoder_layers,
        attention=str(cfg.state_attention),
        input_dropout=cfg.decoder_dropout_in,
        layer_dropout=cfg.dropout,
        output_dropout=cfg.decoder_dropout_out,
        include_current=str(cfg.include_current) == "yes",
        position_width=cfg.position_width,
        clamp=str(cfg.position_clamp),
        sigma_floor=cfg.sigma_floor,
        epsilon=cfg.position_epsilon,
    )


PRESETS = read_group("language_model")

for _name, _preset in PRESETS.items():
    register_preset("recurrent_lm", _name, _preset)
