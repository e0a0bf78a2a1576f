"""The presets of posattn_transformer: each model in config/model in each size in config/size."""

from __future__ import annotations

from fairseq.models import register_model_architecture
from fairseq.models.transformer import transformer_legacy

from fairseq_posattn.glue.models.preset_files import fill_in, read_group

MODELS = read_group("model")
SIZES = read_group("size")
SUFFIXES = {"": "wmt_en_de", **{f"_{size}": size for size in SIZES}}
# A window across three heads needs more heads than the size has.
EXCEPTIONS = {("csan_2d", "tiny"): {"encoder_attention_heads": 4}}


def register_preset(model: str, size: str, name: str) -> None:
    """Make a model in a size known as --arch NAME."""
    preset = {**MODELS[model], **SIZES[size], **EXCEPTIONS.get((model, size), {})}
    attention = preset.pop("encoder_attention", "")

    def architecture(args):
        fill_in(args, preset)
        fill_in(args, {"encoder_attention": within(args.encoder_layers, attention)})
        transformer_legacy.base_architecture(args)  # fairseq's own defaults of all other options

    register_model_architecture("posattn_transformer", name)(architecture)


def within(layers: int, attention: str) -> str:
    """Return a specification for an encoder that may have fewer than its lowest three layers."""
    return attention.replace("@0-2", f"@0-{layers - 1}") if layers < 3 else attention


for _model in MODELS:
    for _suffix, _size in SUFFIXES.items():
        if (_model, _suffix) != ("transformer", ""):  # the model itself has that name
            register_preset(_model, _size, f"posattn_{_model}{_suffix}")
