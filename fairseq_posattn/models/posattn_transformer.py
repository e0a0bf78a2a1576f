"""Give the translation model to programs that call `from_pretrained`; importing it registers the
whole plug-in."""

from fairseq_posattn import plugin  # noqa: F401
from fairseq_posattn.glue.models.posattn_transformer import PosattnTransformerModel

__all__ = ["PosattnTransformerModel"]
