"""Leave a training unchanged that is started again after it has reached one of its limits.

fairseq looks at its limits after an update, so a finished training that is started again makes one
more update, or one more epoch after early stopping, and overwrites its checkpoints.
"""

from __future__ import annotations

import functools
import logging
import math
import os

from fairseq.file_io import PathManager

from fairseq_posattn.glue.patches import patience

logger = logging.getLogger(__name__)

NO_EPOCH = -1  # as --max-epoch it allows no epoch, while 0 means no limit


def stays_finished(load):
    """Wrap checkpoint_utils.load_checkpoint to leave nothing to do if the training ended before."""

    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, *args, **kwargs):
        extra_state, epoch_itr = load(cfg, trainer, *args, **kwargs)
        if extra_state and goes_on(cfg, trainer):
            reached = limit_reached(trainer, epoch_itr, extra_state)
            if reached is not None:
                logger.info(
                    f"This training is finished: {reached}. Nothing was changed; raise that limit "
                    "to train longer"
                )
                trainer.cfg.optimization.max_epoch = NO_EPOCH
        trainer.within_epoch = epoch_itr.iterations_in_epoch > 0
        return extra_state, epoch_itr

    return load_checkpoint


def goes_on(cfg, trainer) -> bool:
    """Return whether the training goes on from its own last checkpoint without a reset."""
    last = own_last(cfg, trainer)
    named = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    from_last = cfg.restore_file == "checkpoint_last.pt" or same_file(named, last)
    return from_last and PathManager.exists(last) and trainer.get_num_updates() > 0


def own_last(cfg, trainer) -> str:
    """Return the path of the last checkpoint of this training."""
    return os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")


def same_file(left: str, right: str) -> bool:
    """Return whether two paths name the same file."""
    return os.path.realpath(left) == os.path.realpath(right)


def limit_reached(trainer, epoch_itr, extra_state: dict) -> str | None:
    """Return a description of the limit that ended the training, or None.

    Every process reads the figures from the same checkpoint, so all find the same answer.
    """
    limits, updates = trainer.cfg.optimization, trainer.get_num_updates()
    if limits.max_update and updates >= limits.max_update:
        return f"it has made {updates} updates (--max-update {limits.max_update})"
    if limits.max_epoch and epoch_itr.next_epoch_idx > limits.max_epoch:
        epochs = epoch_itr.next_epoch_idx - 1
        return f"it has made {epochs} epochs (--max-epoch {limits.max_epoch})"
    if patience.is_lost(trainer.cfg):
        runs = trainer.cfg.checkpoint.patience
        return f"the last {runs} validations were no better (--patience {runs})"
    if epoch_itr.iterations_in_epoch == 0 and trainer.get_lr() <= limits.stop_min_lr:
        return f"its learning rate is {trainer.get_lr()} (--stop-min-lr {limits.stop_min_lr})"
    hours = extra_state.get("previous_training_time", 0) / 3600
    if 0 < limits.stop_time_hours < hours:
        return f"it has run {hours:.4g} hours (--stop-time-hours {limits.stop_time_hours})"
    return None


def between_epochs(get_lr):
    """Wrap Trainer.get_lr, which fairseq calls after loading to compare the rate with
    --stop-min-lr.

    An unbroken training compares it between epochs only. So the answer within an epoch is infinite,
    which is above any limit.
    """

    @functools.wraps(get_lr)
    def get_lr_of_start(trainer):
        within_epoch = vars(trainer).pop("within_epoch", False)
        return math.inf if within_epoch else get_lr(trainer)

    return get_lr_of_start
