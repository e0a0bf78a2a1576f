"""The language models of Dagan (2019) for fairseq, and a task that keeps the order of the corpus.

As in Dagan (2019), the positional model knows the length N of a sentence from the first word on.
During generation, N is unknown; --sentence-length determines the value that replaces it.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from fairseq.data import SortDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import FairseqIncrementalDecoder, FairseqLanguageModel, register_model
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from omegaconf import II
from torch import Tensor

from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.preset_files import read_group, register_preset
from fairseq_posattn.files.numbers import plain_number
from fairseq_posattn.language_models.network import (
    ATTENTIONS,
    RecurrentLanguageModel,
    RecurrentShape,
)

STATE = "recurrent_lm"


@dataclass
class RecurrentLanguageModelConfig(FairseqDataclass):
    """Options of the recurrent_lm model."""

    state_attention: ChoiceEnum(list(ATTENTIONS)) = option(  # type: ignore[valid-type]  # fairseq calls it
        "positional", "choose the attention over the LSTM's states (default: positional)"
    )
    decoder_embed_dim: int = option(400, "set the width of embeddings and LSTM (default: 400)")
    decoder_layers: int = option(2, "set the number of LSTM layers (default: 2)")
    decoder_dropout_in: float = option(0.5, "set the dropout after the embedding (default: 0.5)")
    dropout: float = option(0.2, "set the dropout between layers (default: 0.2)")
    decoder_dropout_out: float = option(0.5, "set the dropout before the output (default: 0.5)")
    include_current: ChoiceEnum(["yes", "no"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "yes",
        "attend to states i <= t (yes, the default, as in the authors' program) or i < t (no)",
    )
    position_clamp: ChoiceEnum(["equation", "text"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "equation",
        "clamp mu to max(mu, t/N), as in equation 8 of the paper (equation, the default), or to "
        "[0, t/N], as in the paper's text (text)",
    )
    position_width: int = option(20, "set the width of the LSTM for mu and sigma (default: 20)")
    sigma_floor: float = option(0.0, "set a lower bound for sigma (default: 0)")
    position_epsilon: float = option(
        1e-3, "add this number to 2 sigma^2 in equation 10 (default: 0.001)"
    )
    sentence_length: str = option(
        "own",
        "set the sentence length N of the positional model: the actual length, or the maximal "
        "length in generation (own, the default); always the maximal length (maximal); or a number "
        "of words, such as 50",
    )
    max_target_positions: Optional[int] = II("task.max_target_positions")
    tokens_per_sample: int = II("task.tokens_per_sample")


class RecurrentDecoder(FairseqIncrementalDecoder):
    """A fairseq decoder that wraps a `RecurrentLanguageModel`."""

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
        """Return the features and attention weights of tokens of shape (B, T).

        The features have the shape (B, T, C). The entry `weights` of the returned dictionary
        contains the weights, of shape (B, T, T), or None for a model without attention.
        """
        if incremental_state is not None:
            return self.next_features(prev_output_tokens[:, -1:], incremental_state)
        real = prev_output_tokens.ne(self.dictionary.pad())
        lengths = self.lengths(prev_output_tokens, real.sum(dim=1))
        start = real.int().argmax(dim=1)  # the number of padding tokens on the left
        if not start.any():
            features, weights, _ = self.model.features(prev_output_tokens, lengths)
            return features, {"attn": [None], "weights": weights}
        features, weights, _ = self.model.features(rolled(prev_output_tokens, start), lengths)
        if weights is not None:
            weights = rolled(rolled(weights, -start).transpose(1, 2), -start).transpose(1, 2)
        return rolled(features, -start), {"attn": [None], "weights": weights}

    def next_features(self, tokens: Tensor, incremental_state):
        """Return the features of one decoding step for tokens of shape (B, 1)."""
        state = self.get_incremental_state(incremental_state, STATE)
        lengths = self.lengths(tokens, None)
        features, weights, state = self.model.features(tokens, lengths, state)
        self.set_incremental_state(incremental_state, STATE, state)
        return features, {"attn": [None], "weights": weights}

    def lengths(self, tokens: Tensor, own: Optional[Tensor]) -> Tensor:
        """Return the length N of each sentence in the batch, of shape (B,).

        own: the actual lengths of the sentences; None during generation.
        """
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
    """Roll each row of `x`, of shape (B, T, ...), to the left.

    by: the number of steps for each row, of shape (B,).
    """
    steps = (torch.arange(x.size(1), device=x.device) + by[:, None]) % x.size(1)  # B T
    return x[torch.arange(len(x), device=x.device)[:, None], steps]


@register_model("recurrent_lm", dataclass=RecurrentLanguageModelConfig)
class RecurrentLanguageModelForFairseq(FairseqLanguageModel):
    """A language model with attention over the states of an LSTM.

    Example:

        posattn train DATA --task language_modeling --arch positional_attentive_lm \\
            --max-tokens 4096
    """

    @classmethod
    def build_model(cls, cfg, task):
        length = cfg.sentence_length
        if length not in ("own", "maximal") and (plain_number(length) or 0) < 1:
            raise InputError(
                f"--sentence-length {length} is not valid; use own, maximal or a number of words"
            )
        longest = getattr(cfg, "max_target_positions", None) or cfg.tokens_per_sample
        dictionary = task.target_dictionary
        if len(dictionary) != len(task.source_dictionary):
            raise InputError(
                "--output-dictionary-size does not work with recurrent_lm, which ties input and "
                "output embeddings; omit this option"
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


@dataclass
class LanguageModelingInOrderConfig(LanguageModelingConfig):
    """Options of the task, identical to those of language_modeling."""


@register_task("language_modeling_in_order", dataclass=LanguageModelingInOrderConfig)
class LanguageModelingInOrderTask(LanguageModelingTask):
    """fairseq's language_modeling task, but with batches of consecutive sentences.

    fairseq's task sorts the sentences by length before it creates batches. Like the program of
    Dagan (2019), this task keeps the order of the corpus instead. The batches are visited in random
    order, except in the first N epochs with `--curriculum N`.
    """

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs):
        """Load a split, and keep the sentences in the order of the corpus."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        self.datasets[split] = SortDataset(dataset, sort_order=[np.arange(len(dataset))])
