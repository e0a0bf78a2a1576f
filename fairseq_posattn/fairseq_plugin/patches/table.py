"""The table of all fairseq patches. Comments state which change would make a patch unnecessary.

The docstring of each wrapper describes the problem that it solves. If several wrappers patch the
same function, the last one in the table runs first.
"""

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

from fairseq_posattn.fairseq_plugin.patches import (
    atomic,
    checked_data,
    diagnostics,
    fitting,
    input_errors,
    launch,
    refusals,
    resumed,
    safe,
    trained_on,
)
from fairseq_posattn.fairseq_plugin.patches.patch import Patch

PATCHES = [
    # until torch and fairseq check what they load
    Patch(checkpoint_utils, "torch", safe.with_checks),
    Patch(checkpoint_utils, "load_checkpoint_to_cpu", safe.explained),
    Patch(checkpoint_utils, "load_checkpoint", launch.started_once),
    Patch(checkpoint_utils, "save_checkpoint", atomic.marked),
    # until fairseq writes to a temporary file and renames it
    Patch(checkpoint_utils, "torch_persistent_save", atomic.whole_save),
    Patch(PathManager, "copy", atomic.whole_copy),
    # until checkpoints contain the counters of early stopping and schedulers, and until fairseq
    # checks its limits before the first update
    Patch(checkpoint_utils, "load_checkpoint", resumed.resumed),
    Patch(Trainer, "get_lr", resumed.between_epochs),
    Patch(Trainer, "save_checkpoint", resumed.stored),
    Patch(Trainer, "begin_valid_epoch", resumed.noted),
    Patch(ReduceLROnPlateauLRSchedule, "state_dict", resumed.with_bad_epochs),
    Patch(ReduceLROnPlateauLRSchedule, "load_state_dict", resumed.and_bad_epochs),
    # until the batches depend on the seed alone
    Patch(FairseqTask, "get_batch_iterator", resumed.same_batches),
    # until fairseq no longer hides errors of the model
    Patch(Trainer, "load_checkpoint", fitting.fit_to_train),
    # until fairseq lets modules log numbers
    Patch(Trainer, "begin_epoch", diagnostics.watched),
    Patch(Trainer, "begin_valid_epoch", diagnostics.written),
    # until checkpoints contain fingerprints of their dictionaries
    Patch(Trainer, "load_checkpoint", trained_on.compared_when_resumed),
    Patch(FairseqTask, "state_dict", trained_on.noted),
    Patch(FairseqTask, "load_state_dict", trained_on.compared),
    # until fairseq reads torchrun's rank on CPUs, passes no device there, and searches for unused
    # parameters under LayerDrop
    Patch(distributed_utils, "_infer_torch_distributed_launch_init", launch.without_gpus),
    Patch(distributed_fairseq_model, "DistributedDataParallel", launch.in_parallel),
    # until fairseq ends its workers after each epoch
    Patch(iterators.BackgroundConsumer, "run", checked_data.ending_workers),
    # until fairseq no longer uses numpy.compat
    Patch(language_pair_dataset, "np", checked_data.with_compat),
    Patch(token_block_dataset, "np", checked_data.with_compat),
    # until fairseq reports errors that the user can fix in one line
    *checked_data.PATCHES,
    Patch(options, "parse_args_and_arch", refusals.options_fit),
    Patch(distributed_utils, "call_main", launch.refused_early),
    Patch(tasks, "setup_task", input_errors.data_found),
    Patch(checkpoint_utils, "load_model_ensemble_and_task", fitting.fit),
    Patch(utils, "split_paths", input_errors.whole_paths),
    Patch(iterators.EpochBatchIterator, "first_batch", input_errors.has_a_batch),
    Patch(data_utils, "batch_by_size", input_errors.fits_batches),
    Patch(FairseqTask, "build_model", fitting.with_one_dictionary),
    Patch(FairseqTask, "filter_indices_by_size", input_errors.fits_model),
    Patch(argparse.ArgumentParser, "error", input_errors.without_usage),
    Patch(sys, "excepthook", input_errors.with_one_line),
]


def install() -> None:
    """Install all patches in the order of the table."""
    safe.register_classes()
    refusals.replace_eval()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # otherwise hydra prints its own traceback
    warnings.filterwarnings("ignore", module="hydra")  # fairseq uses deprecated names
    warnings.filterwarnings("ignore", message=r"(?s).*//hydra\.cc/")
    for patch in PATCHES:
        patch.install()
