"""Importing this module registers all tasks, models, criteria and optimisers with fairseq.

It also applies the fairseq patches that are listed in `glue.patches.table`.
"""

from fairseq_posattn.glue.criterions import (  # noqa: F401
    fused_cross_entropy,
    summed_cross_entropy,
    tree_supervised,
)
from fairseq_posattn.glue.criterions import tagging as _tagging_criterion  # noqa: F401
from fairseq_posattn.glue.models import (  # noqa: F401
    attention_s2s,
    posattn_transformer,
    recurrent_lm,
    san_tagger,
)
from fairseq_posattn.glue.optim import fused_adam, rmsprop  # noqa: F401
from fairseq_posattn.glue.patches import table as patches
from fairseq_posattn.glue.tasks import (  # noqa: F401
    language_modeling_in_order,
    structured_translation,
    tagging,
)

patches.install()

PosattnTransformerModel = posattn_transformer.PosattnTransformerModel  # for `from_pretrained`
