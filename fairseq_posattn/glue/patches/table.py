"""List all patches of fairseq in one table: which function, why, until when.

The order counts where one function is wrapped several times: the last wrapper runs first.
"""

from __future__ import annotations

import argparse
import os
import sys

from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import data_utils, iterators, language_pair_dataset, token_block_dataset
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import distributed_fairseq_model
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.glue.patches import (
    atomic,
    checked_data,
    checked_state,
    diagnostics,
    fitting,
    input_errors,
    launch,
    loading,
    resumed,
    safe,
    trained_on,
)
from fairseq_posattn.glue.patches.patch import Patch

CHECKPOINTS = [
    Patch(
        checkpoint_utils,
        "torch",
        checked_state.with_checks,
        "A checkpoint can have changed bits, ask for any memory, and read the environment.",
        "torch and fairseq check what they load",
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint_to_cpu",
        safe.explained,
        "An incomplete, damaged or unsafe checkpoint ends in a traceback that does not name it.",
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint",
        launch.started_once,
        "Two trainings write into one folder, and the traces of a kill stay there.",
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint",
        resumed.remembered,
        "An interruption makes early stopping count from zero again.",
        "the checkpoint holds the count",
    ),
    Patch(
        checkpoint_utils,
        "load_checkpoint",
        resumed.stays_finished,
        "A finished training that is started again makes one more update or epoch.",
        "fairseq compares its limits before the first update",
    ),
    Patch(
        checkpoint_utils,
        "save_checkpoint",
        atomic.marked,
        "After an interrupted save checkpoint_last.pt is older than the others, and nobody knows.",
    ),
    Patch(
        checkpoint_utils,
        "torch_persistent_save",
        atomic.whole_save,
        "A kill leaves an incomplete checkpoint under its name; a full disk is retried in vain.",
        "fairseq writes beside the target and renames",
    ),
    Patch(
        PathManager,
        "copy",
        atomic.whole_copy,
        "A kill while a checkpoint is copied leaves an incomplete file under its final name.",
        "fairseq writes beside the target and renames",
    ),
    Patch(
        Trainer,
        "save_checkpoint",
        resumed.stored,
        "The checkpoint does not hold what early stopping counts.",
        "the checkpoint holds the count",
    ),
    Patch(
        Trainer,
        "load_checkpoint",
        input_errors.reason_shown,
        "A checkpoint that a model refuses ends in a message without the reason.",
        "fairseq raises the error of the model",
    ),
    Patch(
        Trainer,
        "load_checkpoint",
        fitting.fit_to_train,
        "A checkpoint with a parameter too few or of another size is not told what does not fit.",
        "fairseq raises the error of the model",
    ),
    Patch(
        Trainer,
        "begin_valid_epoch",
        resumed.noted,
        "A validation at --max-update counts, although a longer training would not have made it.",
        "the checkpoint holds the count",
    ),
    Patch(
        Trainer,
        "begin_epoch",
        diagnostics.watched,
        "Mechanisms do not keep what they predict, which TensorBoard is to show.",
        "fairseq asks modules for numbers to log",
    ),
    Patch(
        Trainer,
        "begin_valid_epoch",
        diagnostics.written,
        "TensorBoard does not show what the mechanisms have learnt.",
        "fairseq asks modules for numbers to log",
    ),
    Patch(
        Trainer,
        "get_lr",
        resumed.between_epochs,
        "A training that is resumed within an epoch is compared with --stop-min-lr at once.",
        "fairseq compares its limits before the first update",
    ),
    Patch(
        ReduceLROnPlateauLRSchedule,
        "state_dict",
        resumed.with_bad_epochs,
        "An interruption makes reduce_lr_on_plateau count from zero again.",
        "the state holds num_bad_epochs",
    ),
    Patch(
        ReduceLROnPlateauLRSchedule,
        "load_state_dict",
        resumed.and_bad_epochs,
        "An interruption makes reduce_lr_on_plateau count from zero again.",
        "the state holds num_bad_epochs",
    ),
    Patch(
        Trainer,
        "load_checkpoint",
        trained_on.compared_when_resumed,
        "A training goes on with other dictionaries, in which numbers mean other words.",
        "checkpoints hold fingerprints of their dictionaries",
    ),
    Patch(
        FairseqTask,
        "state_dict",
        trained_on.noted,
        "A checkpoint does not tell with which dictionaries and trees it was trained.",
        "checkpoints hold fingerprints of their dictionaries",
    ),
    Patch(
        FairseqTask,
        "load_state_dict",
        trained_on.compared,
        "Data with other dictionaries are translated, into nonsense.",
        "checkpoints hold fingerprints of their dictionaries",
    ),
    Patch(
        FairseqTask,
        "get_batch_iterator",
        resumed.same_batches,
        "A resumed training gets other batches than an unbroken one.",
        "the batches depend on the seed alone",
    ),
    Patch(
        distributed_utils,
        "_infer_torch_distributed_launch_init",
        launch.without_gpus,
        "torchrun on a machine without GPUs ends in a division by zero.",
        "fairseq takes the rank from torchrun there, too",
    ),
    Patch(
        distributed_fairseq_model,
        "DistributedDataParallel",
        launch.in_parallel,
        "The default --ddp-backend fails on CPUs, and with --encoder-layerdrop.",
        "fairseq passes no device on CPUs, and looks for unused parameters with LayerDrop",
    ),
]
INPUT = [
    Patch(
        distributed_utils,
        "call_main",
        launch.refused_early,
        "No --max-tokens, an untried backend and lines that are not UTF-8 end in tracebacks.",
    ),
    Patch(
        tasks,
        "setup_task",
        input_errors.data_found,
        "A mistyped folder of data ends in a message about a file, or a traceback.",
    ),
    Patch(
        iterators.BackgroundConsumer,
        "run",
        loading.ending_workers,
        "The processes that loaded an epoch stay, and their end stops a tagger for five seconds.",
        "fairseq keeps no workers beyond an epoch",
    ),
    Patch(
        checkpoint_utils,
        "load_model_ensemble_and_task",
        input_errors.user_dir_named,
        "A checkpoint with a class of one's own does not say that it needs --user-dir.",
        "nobody has classes of their own",
    ),
    Patch(
        checkpoint_utils,
        "load_model_ensemble_and_task",
        fitting.fit,
        "A checkpoint that does not fit ends in a traceback; one that is no number translates.",
    ),
    Patch(
        utils,
        "split_paths",
        input_errors.whole_paths,
        "A colon in a path silently makes two paths of it.",
    ),
    Patch(
        iterators.EpochBatchIterator,
        "first_batch",
        input_errors.has_a_batch,
        "A training set of fewer than eight sentences ends in a traceback without the reason.",
        "fairseq keeps the sentences that do not fill a multiple",
    ),
    Patch(
        data_utils,
        "batch_by_size",
        input_errors.fits_batches,
        "--max-tokens below the longest sentence ends in an assertion without a message.",
    ),
    Patch(
        FairseqTask,
        "build_model",
        fitting.with_one_dictionary,
        "--share-all-embeddings with two dictionaries ends in a traceback.",
    ),
    Patch(
        FairseqTask,
        "filter_indices_by_size",
        input_errors.fits_model,
        "A sentence that is too long ends in a traceback that does not say where it stands.",
    ),
    Patch(
        FairseqTask,
        "get_interactive_tokens_and_lengths",
        input_errors.lines_counted,
        "Errors of fairseq-interactive cannot name the line of the input.",
    ),
    Patch(
        argparse.ArgumentParser,
        "error",
        input_errors.without_usage,
        "A mistyped --arch is buried under 115 lines of usage and a line with all names.",
    ),
    Patch(
        sys,
        "excepthook",
        input_errors.with_one_line,
        "Errors that the user can mend are buried under a traceback.",
    ),
]
NUMPY = [
    Patch(
        module,
        "np",
        loading.with_compat,
        "--sample-break-mode eos asks for numpy.compat, which numpy 2 does not have.",
        "fairseq no longer uses numpy.compat",
    )
    for module in (language_pair_dataset, token_block_dataset)
]
PATCHES = [*CHECKPOINTS, *checked_data.PATCHES, *INPUT, *NUMPY]


def install() -> None:
    """Install all patches: a later one wraps an earlier one."""
    safe.register_classes()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hydra would print a traceback itself
    for patch in PATCHES:
        patch.install()
