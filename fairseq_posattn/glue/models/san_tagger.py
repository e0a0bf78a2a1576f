"""san_tagger: the tagger of Dufter et al. 2020 around the attention core, and its presets."""

# no `from __future__ import annotations`: fairseq reads the types of the options

import logging
from dataclasses import dataclass, field
from functools import partial

import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor

from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.core.attention.registry import describe
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.core.tagger import Tagger, TaggerShape
from fairseq_posattn.glue.models.posattn_transformer import helpful
from fairseq_posattn.glue.models.preset_files import read_group, register_preset

logger = logging.getLogger(__name__)


@dataclass
class SanTaggerConfig(FairseqDataclass):
    encoder_positions: ChoiceEnum(["none", "added", "concatenated"]) = field(  # type: ignore[valid-type]  # fairseq calls it
        default="added", metadata={"help": "learnt positions: added to the words, or beside them"}
    )
    encoder_attention: str = field(
        default="",
        metadata={"help": "attention mechanisms, as 'convolved_2d'; 'help' lists them"},
    )
    encoder_layers: int = field(default=4, metadata={"help": "layers of self-attention"})
    encoder_attention_heads: int = field(default=4, metadata={"help": "heads of each"})
    encoder_embed_dim: int = field(
        default=128, metadata={"help": "width of a word, and of a position"}
    )
    char_embed_dim: int = field(default=64, metadata={"help": "width of a character"})
    char_filters: int = field(
        default=64, metadata={"help": "filters of each convolution over them"}
    )
    char_kernel: int = field(
        default=5, metadata={"help": "characters that a filter sees; the paper prints 3"}
    )
    char_layers: int = field(default=3, metadata={"help": "convolutions over the characters"})
    dropout: float = field(default=0.1, metadata={"help": "before each layer"})
    max_source_positions: int = field(
        default=60, metadata={"help": "words of the longest sentence; longer ones were cut"}
    )


@register_model("san_tagger", dataclass=SanTaggerConfig)
class SanTaggerModel(BaseFairseqModel):
    def __init__(self, tagger: Tagger, specials: int):
        super().__init__()
        self.tagger = tagger
        self.specials = specials

    @classmethod
    def add_args(cls, parser):
        gen_parser_from_dataclass(parser, SanTaggerConfig(), delete_default=True)
        parser._option_string_actions["--encoder-attention"].type = helpful(
            AttentionSpecification, partial(describe, "encoder")
        )

    @classmethod
    def build_model(cls, cfg, task):
        vocabulary = task.vocabulary
        attention = AttentionSpecification(cfg.encoder_attention)
        refuse_trees(attention)
        shape = shape_of(cfg, vocabulary)
        if shape.width % shape.heads:
            raise SpecificationError(
                f"--encoder-attention-heads {shape.heads} do not divide the width {shape.width} "
                "(--encoder-embed-dim, twice with concatenated positions, and --char-filters)"
            )
        logger.info(
            "san_tagger: --encoder-positions '%s' --encoder-attention '%s'",
            *(shape.positions, attention),
        )
        return cls(Tagger(shape, attention, cfg.dropout), vocabulary.tags.nspecial)

    def forward(self, words: Tensor, spellings: Tensor, spelling_of: Tensor) -> Tensor:
        """-> scores of the labels, B T labels."""
        return self.tagger(words, spellings, spelling_of)

    def tags(self, scores: Tensor) -> Tensor:
        """The best tag of each word: B T labels -> B T; never padding or unknown."""
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


def refuse_trees(attention: AttentionSpecification) -> None:
    if attention.needs_tree:
        raise SpecificationError(f"'{attention}' reads trees, which the tagging task does not load")


TAGGERS = read_group("tagger")  # the rows of Table 2b of Dufter et al. (2020)
SIZES = read_group("tagger_size")
SUFFIXES = {"": "ud", "_ptb": "ptb"}

for _model, _preset in TAGGERS.items():
    for _suffix, _size in SUFFIXES.items():
        register_preset("san_tagger", f"san_tagger_{_model}{_suffix}", _preset | SIZES[_size])
