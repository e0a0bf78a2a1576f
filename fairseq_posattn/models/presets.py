"""--arch presets: the nine models of Table 1 of Wang et al. (2019), each in four sizes."""

from __future__ import annotations

from fairseq.models import register_model_architecture
from fairseq.models.transformer import transformer_legacy

# name -> --encoder-positions, --encoder-attention; in the order of the paper's Table 1
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

# suffix -> fairseq's own sizes
SIZES = {
    "": transformer_legacy.base_architecture,
    "_tiny": transformer_legacy.tiny_architecture,
    "_iwslt_de_en": transformer_legacy.transformer_iwslt_de_en,
    "_wmt_en_de": transformer_legacy.transformer_wmt_en_de,
    "_wmt_en_de_big": transformer_legacy.transformer_wmt_en_de_big,
}


def register_preset(name: str, size, positions: str, attention: str) -> None:
    def architecture(args):
        args.encoder_positions = getattr(args, "encoder_positions", positions)
        args.encoder_attention = getattr(args, "encoder_attention", attention)
        size(args)

    register_model_architecture("posattn_transformer", name)(architecture)


for _model, (_positions, _attention) in STRUCTURAL_MODELS.items():
    for _suffix, _size in SIZES.items():
        register_preset(f"posattn_{_model}{_suffix}", _size, _positions, _attention)
