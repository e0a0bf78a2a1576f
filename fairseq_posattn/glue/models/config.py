"""Define the options of posattn_transformer: those of fairseq's Transformer and our own.

fairseq's nested TransformerConfig works with argparse or with hydra, but not with both. A flat
dataclass works with both, and with the presets of --arch.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from argparse import Namespace
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import (
    DecoderConfig,
    EncDecBaseConfig,
    QuantNoiseConfig,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper

from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError

NESTED = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}


@dataclass
class OwnOptions(FairseqDataclass):
    """These options choose the positions and the attention, and how dropout is drawn."""

    encoder_positions: str = option(
        "sequence",
        "choose the absolute positions of the encoder: none, sequence, tree_depth, "
        "or 'sequence + tree_depth(fuse=add|nonlinear)'; 'help' explains them",
    )
    encoder_attention: str = option(
        "",
        "choose the attention mechanisms of the encoder, for example "
        "'relative(max=16)@0-2 + tree_relative'; an empty text gives the stock "
        "Transformer; 'help' lists the mechanisms",
    )
    decoder_positions: str = option(
        "sequence",
        "choose the absolute positions of the decoder: none, sequence, or those of "
        "your own that do not look ahead; 'help' lists them",
    )
    decoder_attention: str = option(
        "",
        "choose the attention mechanisms of the decoder's self-attention, for "
        "example 'window@0-2'; only mechanisms that do not look ahead are possible; an "
        "empty text gives the stock Transformer; 'help' lists the mechanisms",
    )
    cross_attention: str = option(
        "",
        "choose the attention mechanisms of the decoder's attention to the source, "
        "for example 'window(size=21)@0-2'; only mechanisms that fit two sentences are "
        "possible; an empty text gives the stock Transformer; 'help' lists the mechanisms",
    )
    fast_dropout: bool = option(
        False,
        "draw dropout in less time on a CPU, with rates rounded to 1/65,536 and "
        "other random numbers than those of torch",
    )


def flat_fields():
    """Yield name, type and field of every option of fairseq's Transformer, each under its name on
    the command line."""
    for outer in fields(TransformerConfig):
        if outer.name in NESTED:
            for inner in fields(NESTED[outer.name]):
                if not inner.name.startswith("_"):
                    yield flat_field(f"{outer.name}_{inner.name}", inner)
        elif not outer.name.startswith("_"):
            yield flat_field(outer.name, outer)


def flat_field(name: str, source):
    """Return a copy of fairseq's field under its full name."""
    if name.endswith("_layers_to_keep"):  # fairseq's pruning reads it as a string: '0,2,4'
        return name, Optional[str], field(default=None, metadata=source.metadata)
    if name in ("decoder_input_dim", "decoder_output_dim"):  # None stands for the embedding's width
        return name, Optional[int], field(default=None, metadata=source.metadata)
    assert source.default is not MISSING and not is_dataclass(source.default), name
    return name, source.type, field(default=source.default, metadata=source.metadata)


PosattnTransformerConfig = make_dataclass(
    "PosattnTransformerConfig", flat_fields(), bases=(OwnOptions,)
)


def plain_namespace(cfg: Any) -> Namespace:
    """Return a dataclass, DictConfig or Namespace as a Namespace that may change."""
    items = cfg.items() if hasattr(cfg, "items") else vars(cfg).items()
    return Namespace(**dict(items))


def wrapped(layer, cfg):
    """Return a layer under activation checkpointing and FSDP, as the options ask for.

    As in fairseq, FSDP wraps every layer under checkpointing, whatever its size.
    """
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(
        layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    )


def layer_numbers(side) -> list[int]:
    """Return the numbers of the layers of a side (encoder or decoder), also when it is pruned."""
    keep = side.layers_to_keep
    try:
        return sorted(map(int, keep.split(","))) if keep else list(range(side.layers))
    except ValueError:
        raise InputError(
            f"--encoder-layers-to-keep or --decoder-layers-to-keep {keep}: expected the numbers of "
            "layers, such as 0,2"
        ) from None
