"""Importing this module registers all tasks, models, criteria and optimisers with fairseq.

It also applies the fairseq patches that are listed in `fairseq_plugin.patches.table`.
"""

from argparse import Namespace

from fairseq.utils import import_user_module

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin import (  # noqa: F401
    criterions,
    optimizers,
    structured_translation,
)
from fairseq_posattn.fairseq_plugin.models import (  # noqa: F401
    attention_s2s,
    posattn_transformer,
)
from fairseq_posattn.fairseq_plugin.patches import table as patches
from fairseq_posattn.language_models import model as language_model  # noqa: F401
from fairseq_posattn.tagging import model as tagger  # noqa: F401
from fairseq_posattn.tagging import task  # noqa: F401

patches.install()

PosattnTransformerModel = posattn_transformer.PosattnTransformerModel  # for `from_pretrained`


def import_user_dir(folder: str | None) -> None:
    """Import the user's code from the folder given with --user-dir."""
    try:
        import_user_module(Namespace(user_dir=folder))
    except FileNotFoundError as error:
        if error.strerror is not None:  # the user's code failed to open a file
            raise
        raise InputError(f"--user-dir {folder}: there is no such folder; check the path") from None
