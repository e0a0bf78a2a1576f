"""Register the presets of posattn_transformer, which are all models in all sizes of config/."""

from __future__ import annotations

from fairseq.models import ARCH_CONFIG_REGISTRY, register_model_architecture
from fairseq.models.transformer import transformer_legacy

from fairseq_posattn.glue.models.positions import refuse_contradiction
from fairseq_posattn.glue.models.preset_files import fill_in, read_group

MODELS = read_group("model")
SIZES = read_group("size")
SUFFIXES = {"": "wmt_en_de", **{f"_{size}": size for size in SIZES}}
# A window across three heads needs more heads than the size `tiny` has.
EXCEPTIONS = {("csan_2d", "tiny"): {"encoder_attention_heads": 4}}


def register_preset(model: str, size: str, name: str) -> None:
    """Register a model in one of the sizes so that --arch NAME chooses it."""
    preset = {**MODELS[model], **SIZES[size], **EXCEPTIONS.get((model, size), {})}
    attention = preset.pop("encoder_attention", "")

    def architecture(args):
        refuse_contradiction(args)
        fill_in(args, preset)
        fill_in(args, {"encoder_attention": within(args.encoder_layers, attention)})
        transformer_legacy.base_architecture(args)  # fairseq's own defaults of all other options

    register_model_architecture("posattn_transformer", name)(architecture)


def within(layers: int, attention: str) -> str:
    """Return the specification without layers that the encoder does not have, as @0-2 needs
    three."""
    return attention.replace("@0-2", f"@0-{layers - 1}") if layers < 3 else attention


# The model itself is an --arch, too, for which fairseq has put an empty function there.
ARCH_CONFIG_REGISTRY["posattn_transformer"] = refuse_contradiction

for _model in MODELS:
    for _suffix, _size in SUFFIXES.items():
        if (_model, _suffix) != ("transformer", ""):  # the model itself has that name
            register_preset(_model, _size, f"posattn_{_model}{_suffix}")
