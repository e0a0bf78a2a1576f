"""A small model of random weights, with its task, as if it had been loaded."""

from argparse import Namespace
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY

from fairseq_posattn.inspection.model import Loaded
from fairseq_posattn.plugin import PosattnTransformerModel

SYMBOLS = (*(f"w{number}" for number in range(58)), "(", ")")


def task(symbols: Sequence[str] = SYMBOLS):
    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    dictionary.finalize()
    return SimpleNamespace(
        source_dictionary=dictionary,
        target_dictionary=dictionary,
        provides_trees=True,
        label_sizes=lambda kinds: {"relations": 5, "tags": 5},
        label_dictionaries=SimpleNamespace(fingerprint=b"00"),
    )


def build(
    kind=PosattnTransformerModel, arch="posattn_no_positions_tiny", symbols=SYMBOLS, **options
) -> Loaded:
    """A model of random weights, none of which is 0 or 1 in the beginning."""
    torch.manual_seed(0)
    sizes = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 2), ("embed_dim", 32), ("attention_heads", 4))
    }
    sizes |= {"encoder_ffn_embed_dim": 64, "decoder_ffn_embed_dim": 64}
    sizes |= {"encoder_positions": "none", "decoder_positions": "none"}
    sizes |= {"max_source_positions": 200, "max_target_positions": 200}
    args = Namespace(arch="posattn_transformer", dropout=0.0, **{**sizes, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    of_task = task(symbols)
    model = kind.build_model(args, of_task).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, float(parameter.dim() == 1), 0.25)
    return Loaded(model, of_task, None)
