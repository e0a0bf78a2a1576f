"""List all patches of fairseq in one table; a comment says until when some of them are needed.

Each wrapper says what goes wrong without it. The order counts where one function is wrapped several
times: the last wrapper runs first.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings

from fairseq import checkpoint_utils, options, tasks, utils
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
    evaluated,
    fitting,
    input_errors,
    launch,
    loading,
    refusals,
    resumed,
    safe,
    trained_on,
)
from fairseq_posattn.glue.patches.patch import Patch

PATCHES = [
    # until torch and fairseq check what they load
    Patch(checkpoint_utils, "torch", checked_state.with_checks),
    Patch(checkpoint_utils, "load_checkpoint_to_cpu", safe.explained),
    Patch(checkpoint_utils, "load_checkpoint", launch.started_once),
    Patch(checkpoint_utils, "save_checkpoint", atomic.marked),
    # until fairseq writes beside the target and renames
    Patch(checkpoint_utils, "torch_persistent_save", atomic.whole_save),
    Patch(PathManager, "copy", atomic.whole_copy),
    # until checkpoints hold what early stopping and schedulers count
    Patch(checkpoint_utils, "load_checkpoint", resumed.remembered),
    Patch(Trainer, "save_checkpoint", resumed.stored),
    Patch(Trainer, "begin_valid_epoch", resumed.noted),
    Patch(ReduceLROnPlateauLRSchedule, "state_dict", resumed.with_bad_epochs),
    Patch(ReduceLROnPlateauLRSchedule, "load_state_dict", resumed.and_bad_epochs),
    # until fairseq compares its limits before the first update
    Patch(checkpoint_utils, "load_checkpoint", resumed.stays_finished),
    Patch(Trainer, "get_lr", resumed.between_epochs),
    # until the batches depend on the seed alone
    Patch(FairseqTask, "get_batch_iterator", resumed.same_batches),
    # until fairseq raises the error of the model
    Patch(Trainer, "load_checkpoint", input_errors.reason_shown),
    Patch(Trainer, "load_checkpoint", fitting.fit_to_train),
    # until fairseq asks modules for numbers to log
    Patch(Trainer, "begin_epoch", diagnostics.watched),
    Patch(Trainer, "begin_valid_epoch", diagnostics.written),
    # until checkpoints hold fingerprints of their dictionaries
    Patch(Trainer, "load_checkpoint", trained_on.compared_when_resumed),
    Patch(FairseqTask, "state_dict", trained_on.noted),
    Patch(FairseqTask, "load_state_dict", trained_on.compared),
    # until fairseq takes the rank from torchrun on CPUs, passes no device there, and looks for
    # unused parameters with LayerDrop
    Patch(distributed_utils, "_infer_torch_distributed_launch_init", launch.without_gpus),
    Patch(distributed_fairseq_model, "DistributedDataParallel", launch.in_parallel),
    # until fairseq knows that GPUs have bfloat16, too
    Patch(options, "parse_args_and_arch", launch.without_tpu),
    # until fairseq keeps no workers beyond an epoch
    Patch(iterators.BackgroundConsumer, "run", loading.ending_workers),
    # until fairseq no longer uses numpy.compat
    Patch(language_pair_dataset, "np", loading.with_compat),
    Patch(token_block_dataset, "np", loading.with_compat),
    # until fairseq says in one line what the user can mend
    *checked_data.PATCHES,
    Patch(options, "parse_args_and_arch", refusals.options_fit),
    Patch(distributed_utils, "call_main", launch.refused_early),
    Patch(tasks, "setup_task", input_errors.data_found),
    Patch(checkpoint_utils, "load_model_ensemble_and_task", input_errors.user_dir_named),
    Patch(checkpoint_utils, "load_model_ensemble_and_task", fitting.fit),
    Patch(utils, "split_paths", input_errors.whole_paths),
    Patch(iterators.EpochBatchIterator, "first_batch", input_errors.has_a_batch),
    Patch(data_utils, "batch_by_size", input_errors.fits_batches),
    Patch(FairseqTask, "build_model", fitting.with_one_dictionary),
    Patch(FairseqTask, "filter_indices_by_size", input_errors.fits_model),
    Patch(FairseqTask, "get_interactive_tokens_and_lengths", input_errors.lines_counted),
    Patch(argparse.ArgumentParser, "error", input_errors.without_usage),
    Patch(sys, "excepthook", input_errors.with_one_line),
]


def install() -> None:
    """Install all patches: a later one wraps an earlier one."""
    safe.register_classes()
    evaluated.install()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # hydra would print a traceback itself
    warnings.filterwarnings("ignore", module="hydra")  # about fairseq's use of older names
    warnings.filterwarnings("ignore", message=r"(?s).*//hydra\.cc/")
    for patch in PATCHES:
        patch.install()
