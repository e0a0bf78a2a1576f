"""Options of posattn_transformer: fairseq's Transformer options, flat, and our own.

fairseq's nested TransformerConfig serves either argparse or hydra, not both; a flat dataclass
serves both, and --arch presets besides.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
)

NESTED = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}
OWN = [
    (
        "encoder_positions",
        str,
        field(
            default="sequence",
            metadata={
                "help": "absolute positions of the encoder: none, sequence, tree_depth, or "
                "'sequence + tree_depth(fuse=add|nonlinear)'; 'help' explains them"
            },
        ),
    ),
    (
        "encoder_attention",
        str,
        field(
            default="",
            metadata={
                "help": "attention mechanisms of the encoder, as 'relative(max=16)@0-2 + "
                "tree_relative'; empty: the stock Transformer; 'help' lists them"
            },
        ),
    ),
    (
        "decoder_attention",
        str,
        field(
            default="",
            metadata={
                "help": "attention mechanisms of the decoder's self-attention, as 'window@0-2': "
                "those that do not look ahead; empty: the stock Transformer; 'help' lists them"
            },
        ),
    ),
]


NEWER = [  # fairseq 0.12.2 lacks these, but config/options lists them for all releases
    (
        "merge_src_tgt_embed",
        bool,
        field(
            default=False,
            metadata={"help": "one table of embeddings for source and target (fairseq-fixed)"},
        ),
    ),
]


def flat_fields():
    """(name, type, field) of every option, with the prefix that it has on the command line."""
    for outer in fields(TransformerConfig):
        if outer.name in NESTED:
            for inner in fields(NESTED[outer.name]):
                if not inner.name.startswith("_"):
                    yield flat_field(f"{outer.name}_{inner.name}", inner)
        elif not outer.name.startswith("_"):
            yield flat_field(outer.name, outer)


def flat_field(name: str, source):
    """A copy of fairseq's field under its full name."""
    if name.endswith("_layers_to_keep"):  # fairseq's pruning reads it as a string: '0,2,4'
        return name, Optional[str], field(default=None, metadata=source.metadata)
    if name in ("decoder_input_dim", "decoder_output_dim"):  # None: the embedding's width
        return name, Optional[int], field(default=None, metadata=source.metadata)
    assert source.default is not MISSING and not is_dataclass(source.default), name
    return name, source.type, field(default=source.default, metadata=source.metadata)


def all_fields():
    """(name, type, field) of every option of posattn_transformer, the same for all releases."""
    found = list(flat_fields())
    known = {name for name, *_ in found}
    return [*found, *(option for option in NEWER if option[0] not in known), *OWN]


PosattnTransformerConfig = make_dataclass(
    "PosattnTransformerConfig", all_fields(), bases=(FairseqDataclass,)
)
