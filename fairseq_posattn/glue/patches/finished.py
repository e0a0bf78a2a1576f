"""A training that has reached one of its limits is not trained on when it is started again.

fairseq looks at its limits after an update, so a finished training that is started again makes one
more update, or one more epoch after early stopping, and writes it over its checkpoints.
"""

from __future__ import annotations

import functools
import logging
import math
import os

from fairseq.file_io import PathManager

from fairseq_posattn.glue.patches import patience

logger = logging.getLogger(__name__)

NO_EPOCH = -1  # as --max-epoch: fairseq takes 0 for no limit


def stays_finished(load):
    """checkpoint_utils.load_checkpoint: leave nothing to do if the training ended before."""

    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, *args, **kwargs):
        extra_state, epoch_itr = load(cfg, trainer, *args, **kwargs)
        if extra_state and goes_on(cfg, trainer):
            reached = limit_reached(trainer, epoch_itr, extra_state)
            if reached is not None:
                logger.info(
                    f"This training is finished: {reached}. Nothing was changed; raise that limit "
                    "to train on"
                )
                trainer.cfg.optimization.max_epoch = NO_EPOCH
        trainer.within_epoch = epoch_itr.iterations_in_epoch > 0
        return extra_state, epoch_itr

    return load_checkpoint


def goes_on(cfg, trainer) -> bool:
    """Return whether the training goes on from its own last checkpoint, and is not reset."""
    last = own_last(cfg, trainer)
    named = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    from_last = cfg.restore_file == "checkpoint_last.pt" or same_file(named, last)
    return from_last and PathManager.exists(last) and trainer.get_num_updates() > 0


def own_last(cfg, trainer) -> str:
    return os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")


def same_file(left: str, right: str) -> bool:
    return os.path.realpath(left) == os.path.realpath(right)


def limit_reached(trainer, epoch_itr, extra_state: dict) -> str | None:
    """The limit that ended the training, in words. Every process reads it from the same file."""
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
    """Trainer.get_lr: fairseq asks it once after loading, and compares it with --stop-min-lr. An
    unbroken training does so between epochs only, so within one the answer is beyond any limit."""

    @functools.wraps(get_lr)
    def get_lr_of_start(trainer):
        within_epoch = vars(trainer).pop("within_epoch", False)
        return math.inf if within_epoch else get_lr(trainer)

    return get_lr_of_start
