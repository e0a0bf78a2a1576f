"""Importing this registers everything with fairseq."""

from fairseq_posattn import checkpoints, input_errors, one_line
from fairseq_posattn.criterions import summed_cross_entropy  # noqa: F401
from fairseq_posattn.criterions import tagging as _tagging_criterion  # noqa: F401
from fairseq_posattn.data import checked
from fairseq_posattn.models import (  # noqa: F401
    attention_s2s,
    posattn_transformer,
    presets,
    recurrent_lm,
    san_tagger,
)
from fairseq_posattn.optim import rmsprop  # noqa: F401
from fairseq_posattn.tasks import (  # noqa: F401
    language_modeling_in_order,
    structured_translation,
    tagging,
)

checkpoints.install()
checked.install()
input_errors.install()
one_line.install()
