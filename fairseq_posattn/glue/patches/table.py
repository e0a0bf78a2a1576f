"""All patches of fairseq in one table: which function, why, for which releases, until when.

The order counts where one function is wrapped several times: the last wrapper runs first.
"""

from __future__ import annotations

import sys

from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils, language_pair_dataset, token_block_dataset
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.glue.patches import (
    atomic,
    checked_data,
    finished,
    input_errors,
    launch,
    numpy_compat,
    old_names,
    older_release,
    one_line,
    patience,
    safe,
    writing,
)
from fairseq_posattn.glue.patches import patch as patching
from fairseq_posattn.glue.patches.patch import Patch

ALL = "0.12.2, fairseq-fixed 0.12.3.1"
NEVER = "fairseq does the same"

CHECKPOINTS = [
    Patch(
        checkpoint_utils,
        "load_checkpoint_to_cpu",
        old_names.renamed,
        "Checkpoints of version 0.1.0 hold names that have changed since.",
        ALL,
        "nobody has such checkpoints any more",
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint_to_cpu",
        safe.explained,
        "A torn, damaged or unsafe checkpoint ends in a traceback that does not name it.",
        ALL,
        NEVER,
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint",
        launch.started_once,
        "Two trainings write into one folder, and the traces of a kill stay there.",
        ALL,
        NEVER,
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint",
        patience.remembered,
        "An interruption makes early stopping count from zero again.",
        ALL,
        "the checkpoint holds the count",
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint",
        finished.stays_finished,
        "A finished training that is started again makes one more update or epoch.",
        ALL,
        "fairseq compares its limits before the first update",
    ),
    Patch(
        checkpoint_utils,
        "save_checkpoint",
        atomic.marked,
        "A save that is broken off leaves checkpoint_last.pt behind the others, and nobody knows.",
        ALL,
        NEVER,
    ),
    Patch(
        checkpoint_utils,
        "torch_persistent_save",
        writing.whole_save,
        "A kill leaves a torn checkpoint under its final name; a full disk is retried in vain.",
        ALL,
        "fairseq writes beside the target and renames",
    ),
    Patch(
        PathManager,
        "copy",
        writing.whole_copy,
        "A kill while a checkpoint is copied leaves a torn file under its final name.",
        ALL,
        "fairseq writes beside the target and renames",
    ),
    Patch(
        Trainer,
        "save_checkpoint",
        patience.stored,
        "The checkpoint does not hold what early stopping counts.",
        ALL,
        "the checkpoint holds the count",
    ),
    Patch(
        Trainer,
        "begin_valid_epoch",
        patience.noted,
        "A validation at --max-update counts, although a longer training would not have made it.",
        ALL,
        "the checkpoint holds the count",
    ),
    Patch(
        Trainer,
        "get_lr",
        finished.between_epochs,
        "A training that is resumed within an epoch is compared with --stop-min-lr at once.",
        ALL,
        "fairseq compares its limits before the first update",
    ),
    Patch(
        ReduceLROnPlateauLRSchedule,
        "state_dict",
        patience.with_bad_epochs,
        "An interruption makes reduce_lr_on_plateau count from zero again.",
        ALL,
        "the state holds num_bad_epochs",
    ),
    Patch(
        ReduceLROnPlateauLRSchedule,
        "load_state_dict",
        patience.and_bad_epochs,
        "An interruption makes reduce_lr_on_plateau count from zero again.",
        ALL,
        "the state holds num_bad_epochs",
    ),
    Patch(
        FairseqTask,
        "get_batch_iterator",
        atomic.same_batches,
        "A resumed training gets other batches than an unbroken one.",
        ALL,
        "the batches depend on the seed alone",
    ),
    Patch(
        distributed_utils,
        "_infer_torch_distributed_launch_init",
        launch.without_gpus,
        "torchrun on a machine without GPUs ends in a division by zero.",
        ALL,
        "fairseq takes the rank from torchrun there, too",
    ),
]
INPUT = [
    Patch(
        utils,
        "split_paths",
        input_errors.whole_paths,
        "A colon in a path silently makes two paths of it.",
        ALL,
        NEVER,
    ),
    Patch(
        data_utils,
        "batch_by_size",
        input_errors.fits_batches,
        "--max-tokens below the longest sentence ends in an assertion without a message.",
        ALL,
        NEVER,
    ),
    Patch(
        FairseqTask,
        "filter_indices_by_size",
        input_errors.fits_model,
        "A sentence that is too long ends in a traceback that does not say where it stands.",
        ALL,
        NEVER,
    ),
    Patch(
        FairseqTask,
        "get_interactive_tokens_and_lengths",
        input_errors.lines_counted,
        "Errors of fairseq-interactive cannot name the line of the input.",
        ALL,
        NEVER,
    ),
    Patch(
        sys,
        "excepthook",
        one_line.with_one_line,
        "Errors that the user can mend are buried under a traceback.",
        ALL,
        NEVER,
    ),
]
NUMPY = [
    Patch(
        module,
        "np",
        numpy_compat.with_compat,
        "--sample-break-mode eos asks for numpy.compat, which numpy 2 does not have.",
        ALL,
        "fairseq stops to use numpy.compat",
    )
    for module in (language_pair_dataset, token_block_dataset)
]
OLDER_RELEASE = [
    Patch(
        TransformerEncoderLayerBase,
        "__init__",
        older_release.without_fast_path,
        "Stock encoders end in 'Mask Type should be defined', as torch 2 calls its fast path "
        "otherwise, and do not show their attention.",
        "0.12.2",
        "fairseq 0.12.2 is no longer used",
    ),
    Patch(
        SinusoidalPositionalEmbedding,
        "__init__",
        older_release.nothing_to_store,
        "Checkpoints hold a number of uninitialised memory, so equal trainings differ.",
        "0.12.2",
        "fairseq 0.12.2 is no longer used",
    ),
    Patch(
        SinusoidalPositionalEmbedding,
        "_load_from_state_dict",
        older_release.nothing_to_load,
        "A checkpoint of the successor, which lacks that number, cannot be loaded.",
        "0.12.2",
        "fairseq 0.12.2 is no longer used",
    ),
]
PATCHES = [*CHECKPOINTS, *checked_data.PATCHES, *INPUT, *NUMPY, *OLDER_RELEASE]


def install() -> None:
    """Install all patches, once."""
    if PATCHES[0] not in patching.installed:
        safe.register_classes()
        one_line.let_hydra_raise()
        patching.install(PATCHES)
