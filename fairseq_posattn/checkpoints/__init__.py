"""Checkpoints that are safe to load, never torn, not written by two trainings at once, that
remember for how long nothing has improved, and that a finished training leaves as they are.

fairseq offers no hook for any of these, so `install` wraps a few of its functions.
"""

from __future__ import annotations

from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.checkpoints import finished, patience, processes, safe, whole, writing


def install() -> None:
    """Wrap fairseq's functions, once."""
    if getattr(checkpoint_utils, "posattn_installed", False):
        return
    checkpoint_utils.posattn_installed = True
    safe.register_classes()
    wrap(checkpoint_utils, "load_checkpoint_to_cpu", safe.explained)
    wrap(checkpoint_utils, "load_checkpoint", processes.started_once)
    wrap(checkpoint_utils, "load_checkpoint", patience.remembered)
    wrap(checkpoint_utils, "load_checkpoint", finished.stays_finished)
    wrap(checkpoint_utils, "save_checkpoint", whole.marked)
    wrap(checkpoint_utils, "torch_persistent_save", writing.whole_save)
    wrap(Trainer, "save_checkpoint", patience.stored)
    wrap(Trainer, "begin_valid_epoch", patience.noted)
    wrap(Trainer, "get_lr", finished.between_epochs)
    wrap(ReduceLROnPlateauLRSchedule, "state_dict", patience.with_bad_epochs)
    wrap(ReduceLROnPlateauLRSchedule, "load_state_dict", patience.and_bad_epochs)
    wrap(FairseqTask, "get_batch_iterator", whole.same_batches)
    wrap(distributed_utils, "_infer_torch_distributed_launch_init", processes.without_gpus)
    PathManager.copy = staticmethod(writing.whole_copy(PathManager.copy))


def wrap(place, name: str, wrapper) -> None:
    setattr(place, name, wrapper(getattr(place, name)))
