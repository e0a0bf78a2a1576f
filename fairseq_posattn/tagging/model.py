"""The san_tagger model: the tagger of Dufter et al. (2020), with mechanisms that need no trees."""

# no `from __future__ import annotations`: fairseq reads the types of the options

import logging
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor

from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.core.attention.registry import describe
from fairseq_posattn.core.option_values import option
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.fairseq_plugin.models.posattn_transformer import helpful
from fairseq_posattn.fairseq_plugin.models.preset_files import read_group, register_preset
from fairseq_posattn.tagging.network import Tagger, TaggerShape

logger = logging.getLogger(__name__)


@dataclass
class SanTaggerConfig(FairseqDataclass):
    """Options of the san_tagger model."""

    encoder_positions: ChoiceEnum(["none", "added", "concatenated"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "added", "add learned positions to word embeddings (default), concatenate them, or use none"
    )
    encoder_attention: str = option(
        "", "choose attention mechanisms, for example 'convolved_2d'; 'help' lists them"
    )
    encoder_layers: int = option(4, "set the number of self-attention layers (default: 4)")
    encoder_attention_heads: int = option(4, "set the number of heads per layer (default: 4)")
    encoder_embed_dim: int = option(
        128, "set the width of word and position embeddings (default: 128)"
    )
    char_embed_dim: int = option(64, "set the width of character embeddings (default: 64)")
    char_filters: int = option(64, "set the number of filters per convolution (default: 64)")
    char_kernel: int = option(5, "set the width of character convolutions (default: 5; paper: 3)")
    char_layers: int = option(3, "set the number of character convolutions (default: 3)")
    dropout: float = option(0.1, "set the dropout before each layer (default: 0.1)")
    max_source_positions: int = option(
        60, "set the maximal number of words per sentence (default: 60, as in binarize-tagging)"
    )


@register_model("san_tagger", dataclass=SanTaggerConfig)
class SanTaggerModel(BaseFairseqModel):
    """Tags each word of a sentence with a self-attention network.

    Example: `posattn train DATA --task tagging --arch san_tagger_conv2d --criterion tagging`
    """

    def __init__(self, tagger: Tagger, specials: int):
        super().__init__()
        self.tagger = tagger
        self.specials = specials

    @classmethod
    def add_args(cls, parser):
        """Add all options to the parser.

        If the value of --encoder-attention is `help`, an explanation is printed.
        """
        gen_parser_from_dataclass(parser, SanTaggerConfig(), delete_default=True)
        parser._option_string_actions["--encoder-attention"].type = helpful(
            AttentionSpecification, partial(describe, "encoder")
        )

    @classmethod
    def build_model(cls, cfg, task):
        """Build the model; raise a SpecificationError for options that cannot be combined."""
        vocabulary = task.vocabulary
        attention = AttentionSpecification(cfg.encoder_attention)
        if attention.needs_tree or attention.learns_from_trees:
            raise SpecificationError(
                f"--encoder-attention '{attention}' reads trees, which the task tagging does not "
                "load; choose another mechanism"
            )
        shape = shape_of(cfg, vocabulary)
        if shape.width % shape.heads:
            raise SpecificationError(
                f"--encoder-attention-heads {shape.heads} does not divide the width {shape.width}, "
                "the sum of --encoder-embed-dim (twice with concatenated positions) and "
                "--char-filters; change one of them"
            )
        logger.info(
            "san_tagger: --encoder-positions '%s' --encoder-attention '%s'",
            *(shape.positions, attention),
        )
        return cls(Tagger(shape, attention, cfg.dropout), vocabulary.tags.nspecial)

    def forward(self, words: Tensor, spellings: Tensor, spelling_of: Tensor) -> Tensor:
        """Return the scores of all tags for each word, of shape (B, T, labels)."""
        return self.tagger(words, spellings, spelling_of)

    def tags(self, scores: Tensor) -> Tensor:
        """Return the highest-scoring tag of each word, of shape (B, T), except special symbols."""
        return scores[..., self.specials :].argmax(dim=-1) + self.specials

    def get_normalized_probs(self, net_output, log_probs, sample=None):
        softmax = F.log_softmax if log_probs else F.softmax
        return softmax(net_output.float(), dim=-1)

    def max_positions(self) -> int:
        return self.tagger.shape.max_positions


def shape_of(cfg, vocabulary) -> TaggerShape:
    return TaggerShape(
        words=len(vocabulary.words),
        characters=len(vocabulary.chars),
        labels=len(vocabulary.tags),
        word_width=cfg.encoder_embed_dim,
        character_width=cfg.char_embed_dim,
        filters=cfg.char_filters,
        kernel=cfg.char_kernel,
        convolutions=cfg.char_layers,
        layers=cfg.encoder_layers,
        heads=cfg.encoder_attention_heads,
        max_positions=cfg.max_source_positions,
        positions=str(cfg.encoder_positions),
    )


TAGGERS = read_group("tagger")  # the rows of Table 2b of Dufter et al. (2020)
SIZES = read_group("tagger_size")
SUFFIXES = {"": "ud", "_ptb": "ptb"}

for _model, _preset in TAGGERS.items():
    for _suffix, _size in SUFFIXES.items():
        register_preset("san_tagger", f"san_tagger_{_model}{_suffix}", _preset | SIZES[_size])
