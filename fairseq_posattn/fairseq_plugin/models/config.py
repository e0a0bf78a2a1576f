"""Options of posattn_transformer, which include those of fairseq's Transformer.

fairseq's nested TransformerConfig does not support both argparse and hydra. A flat dataclass
supports both, and also --arch presets.
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
    """Options for positions, attention mechanisms and dropout."""

    encoder_positions: str = option(
        "sequence",
        "choose the encoder's absolute positions, such as none, sequence (default), tree_depth, "
        "or 'sequence + tree_depth(fuse=add|nonlinear)'; 'help' lists them",
    )
    encoder_attention: str = option(
        "",
        "choose the attention mechanisms of the encoder, for example "
        "'relative(max=16)@0-2 + tree_relative'; the default is an empty string, for the stock "
        "Transformer; 'help' lists the mechanisms",
    )
    decoder_positions: str = option(
        "sequence",
        "choose the absolute positions of the decoder: none, sequence (default), or causal "
        "positions of your own; 'help' lists them",
    )
    decoder_attention: str = option(
        "",
        "choose the attention mechanisms of the decoder's self-attention, which must be causal, "
        "for example 'window@0-2'; the default is an empty string, for the stock Transformer; "
        "'help' lists the mechanisms",
    )
    cross_attention: str = option(
        "",
        "choose the attention mechanisms of the decoder's cross-attention, for example "
        "'window(size=21)@0-2'; the default is an empty string, for the stock Transformer; "
        "'help' lists the mechanisms that support cross-attention",
    )
    fast_dropout: bool = option(
        False,
        "use a faster dropout on CPUs, which rounds rates to multiples of 1/65,536 and draws "
        "different random numbers",
    )


def flat_fields():
    """Yield the flat name, the type and the field of each option of fairseq's Transformer."""
    for outer in fields(TransformerConfig):
        if outer.name in NESTED:
            for inner in fields(NESTED[outer.name]):
                if not inner.name.startswith("_"):
                    yield flat_field(f"{outer.name}_{inner.name}", inner)
        elif not outer.name.startswith("_"):
            yield flat_field(outer.name, outer)


def flat_field(name: str, source):
    """Return the name, the type and a copy of a dataclass field of fairseq."""
    if name.endswith("_layers_to_keep"):  # fairseq's pruning reads it as a string: '0,2,4'
        return name, Optional[str], field(default=None, metadata=source.metadata)
    if name in ("decoder_input_dim", "decoder_output_dim"):  # None means the embedding's width
        return name, Optional[int], field(default=None, metadata=source.metadata)
    assert source.default is not MISSING and not is_dataclass(source.default), name
    return name, source.type, field(default=source.default, metadata=source.metadata)


PosattnTransformerConfig = make_dataclass(
    "PosattnTransformerConfig", flat_fields(), bases=(OwnOptions,)
)


def plain_namespace(cfg: Any) -> Namespace:
    """Copy a dataclass, DictConfig or Namespace to a mutable Namespace."""
    items = cfg.items() if hasattr(cfg, "items") else vars(cfg).items()
    return Namespace(**dict(items))


def wrapped(layer, cfg):
    """Wrap a layer for activation checkpointing and FSDP, as specified by the options.

    As in fairseq, FSDP wraps layers of any size if activation checkpointing is used.
    """
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(
        layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
    )


def layer_numbers(side) -> list[int]:
    """Return the indices of the layers that an encoder or decoder keeps after pruning."""
    keep = side.layers_to_keep
    try:
        return sorted(map(int, keep.split(","))) if keep else list(range(side.layers))
    except ValueError:
        raise InputError(
            f"--encoder-layers-to-keep or --decoder-layers-to-keep {keep} is not a list of layers; "
            "give their numbers, such as 0,2"
        ) from None
