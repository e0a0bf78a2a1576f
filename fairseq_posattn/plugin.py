"""Importing this module registers all tasks, models, criteria and optimisers with fairseq.

It also applies the fairseq patches that are listed in `fairseq_plugin.patches.table`.
"""

from fairseq_posattn.fairseq_plugin.criterions import (  # noqa: F401
    fused_cross_entropy,
    summed_cross_entropy,
    tree_supervised,
)
from fairseq_posattn.fairseq_plugin.models import (  # noqa: F401
    attention_s2s,
    posattn_transformer,
)
from fairseq_posattn.fairseq_plugin.optim import fused_adam, rmsprop  # noqa: F401
from fairseq_posattn.fairseq_plugin.patches import table as patches
from fairseq_posattn.fairseq_plugin.tasks import structured_translation  # noqa: F401
from fairseq_posattn.language_models import model as language_model  # noqa: F401
from fairseq_posattn.language_models import task as language_modeling_in_order  # noqa: F401
from fairseq_posattn.tagging import criterion, task  # noqa: F401
from fairseq_posattn.tagging import model as tagger  # noqa: F401

patches.install()

PosattnTransformerModel = posattn_transformer.PosattnTransformerModel  # for `from_pretrained`
