"""--arch presets: every published model, each in the sizes of fairseq's own presets.

As fairseq's, they fill in what the user leaves open and override nothing.
"""

from __future__ import annotations

from fairseq.models import register_model_architecture
from fairseq.models.transformer import transformer_legacy

from fairseq_posattn.models.config import fill_in

# All tables: name -> --encoder-positions, --encoder-attention

# Wang et al. (2019), Table 1, in its order
STRUCTURAL_MODELS = {
    "no_positions": ("none", ""),
    "tree_absolute": ("tree_depth", ""),
    "tree_relative": ("none", "tree_relative"),
    "sequence": ("sequence", ""),
    "sequence_tree_absolute": ("sequence + tree_depth", ""),
    "sequence_tree": ("sequence + tree_depth", "tree_relative"),
    "relative": ("sequence", "relative"),
    "relative_tree_absolute": ("sequence + tree_depth", "relative"),
    "structural": ("sequence + tree_depth", "relative + tree_relative"),
}

# Yang et al. (2019), Table 1, in its order; its baseline is `sequence`
CONVOLUTIONAL_MODELS = {
    "directional": ("sequence", "directional@0-2"),
    "rel_pos": ("sequence", "relative(shared_heads=false)@0-2"),
    "gaussian": ("sequence", "gaussian@0-2"),
    "local_hard": ("sequence", "local_hard@0-2"),
    "local_soft": ("sequence", "local_soft@0-2"),
    "block": ("sequence", "block@0-2"),
    "cnn": ("sequence", "cnn@0-2"),
    "csan_1d": ("sequence", "window(size=11)@0-2"),
    "csan_2d": ("sequence", "window(size=11, across=3)@0-2"),
}

# Dufter et al. (2020), here in translation: SAN+P, +R, +P+R, +PE+Temp, +PE+Conv, +PE+Conv2d
CONVOLUTED_MODELS = {
    "direct_absolute": ("none", "direct_absolute@0"),
    "direct_relative": ("none", "direct_relative@0"),
    "direct": ("none", "direct_absolute@0 + direct_relative@0"),
    "temperature": ("sequence", "temperature"),
    "convolved_1d": ("sequence", "convolved_1d(start=glorot_normal)"),
    "convolved_2d": ("sequence", "convolved_2d(start=glorot_normal)"),
}

# Bugliarello and Okazaki (2020)
PARENT_SCALED_MODELS = {
    "parent_scaled": ("sequence", "parent_scaled"),
}

MODELS = {
    **STRUCTURAL_MODELS,
    **CONVOLUTIONAL_MODELS,
    **CONVOLUTED_MODELS,
    **PARENT_SCALED_MODELS,
}

# Models with tables of t x t numbers, t = max_source_positions: at Base, fairseq's 1024 would add
# 25 million parameters to each layer of convolved_1d
QUADRATIC_MODELS = ("direct_absolute", "direct", "convolved_1d")
LONGEST_INPUT = 256

# suffix -> fairseq's own sizes
SIZES = {
    "": transformer_legacy.base_architecture,
    "_tiny": transformer_legacy.tiny_architecture,
    "_iwslt_de_en": transformer_legacy.transformer_iwslt_de_en,
    "_wmt_en_de": transformer_legacy.transformer_wmt_en_de,
    "_wmt_en_de_big": transformer_legacy.transformer_wmt_en_de_big,
}


def register_preset(model: str, suffix: str) -> None:
    positions, attention = MODELS[model]

    def architecture(args):
        fill_in(args, "encoder_positions", positions)
        if model in QUADRATIC_MODELS:
            fill_in(args, "max_source_positions", LONGEST_INPUT)
        if (model, suffix) == ("csan_2d", "_tiny"):  # its 2 heads are too few for across=3
            fill_in(args, "encoder_attention_heads", 4)
        SIZES[suffix](args)
        fill_in(args, "encoder_attention", within(args.encoder_layers, attention))

    register_model_architecture("posattn_transformer", f"posattn_{model}{suffix}")(architecture)


def within(layers: int, attention: str) -> str:
    """'the lowest three layers' in an encoder that has fewer: all of them."""
    return attention.replace("@0-2", f"@0-{layers - 1}") if layers < 3 else attention


for _model in MODELS:
    for _suffix in SIZES:
        register_preset(_model, _suffix)
