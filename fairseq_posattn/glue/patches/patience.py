"""What validations have shown outlives an interruption: fairseq forgets for how long nothing has
improved, so that a resumed training would stop later than an unbroken one (--patience), and lower
its learning rate later (reduce_lr_on_plateau)."""

from __future__ import annotations

import functools
import sys

from fairseq import checkpoint_utils
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

KEY = "early_stopping"
EXTRA = "extra_validation"
BAD_EPOCHS = "num_bad_epochs"
before: dict = {}  # what counted before the last validation


def noted(begin_valid_epoch):
    """Trainer.begin_valid_epoch: keep what counted before this validation."""

    @functools.wraps(begin_valid_epoch)
    def begin(trainer, epoch):
        best = vars(checkpoint_utils.save_checkpoint).get("best")
        before.update({KEY: dict(counters()), "best": best})
        return begin_valid_epoch(trainer, epoch)

    return begin


def stored(save):
    """Trainer.save_checkpoint: with what early stopping counts.

    A training that ends within an epoch by --max-update validates once more than one that goes on.
    If it is to go on later, that validation must not count.
    """

    @functools.wraps(save)
    def save_checkpoint(trainer, filename, extra_state, *args, **kwargs):
        extra_state[KEY] = dict(counters())
        extra_state[EXTRA] = extra_state.get("val_loss") is not None and not is_due(
            trainer.cfg, trainer.get_num_updates(), extra_state["train_iterator"]
        )
        if extra_state[EXTRA]:
            extra_state.update(before)
            if extra_state["best"] is None:
                del extra_state["best"]
        return save(trainer, filename, extra_state, *args, **kwargs)

    return save_checkpoint


def is_due(cfg, updates: int, progress: dict) -> bool:
    """Whether fairseq validates here in a training that does not end here."""
    if is_multiple(updates, cfg.dataset.validate_interval_updates):
        return True
    if progress["iterations_in_epoch"] == 0:  # the epoch that begins
        return is_multiple(progress["epoch"] - 1, cfg.dataset.validate_interval)
    return is_multiple(updates, cfg.checkpoint.save_interval_updates)


def is_multiple(number: int, interval: int) -> bool:
    return interval > 0 and number % interval == 0


def remembered(load):
    """checkpoint_utils.load_checkpoint: the count goes on, unless the meters start anew."""

    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, *args, **kwargs):
        extra_state, *rest = load(cfg, trainer, *args, **kwargs)
        goes_on = trainer.get_num_updates() > 0  # not fine-tuning
        if extra_state and goes_on and not cfg.reset_meters:
            counters().update(extra_state.get(KEY, {}))
            heed_last_validation(cfg, trainer, extra_state)
        return extra_state, *rest

    return load_checkpoint


def heed_last_validation(cfg, trainer, extra_state: dict) -> None:
    """A checkpoint is written before its epoch's result has reached the scheduler."""
    ended = extra_state["train_iterator"].get("iterations_in_epoch") == 0
    on_plateau = isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule)
    if ended and on_plateau and not cfg.reset_lr_scheduler:
        result = None if extra_state.get(EXTRA) else extra_state.get("val_loss")
        trainer.lr_step(extra_state["train_iterator"]["epoch"] - 1, result)


def is_lost(cfg) -> bool:
    """Whether early stopping has ended the training."""
    allowed = cfg.checkpoint.patience
    return 0 < allowed <= counters().get("num_runs", 0) and not cfg.dataset.disable_validation


def with_bad_epochs(state_dict):
    """ReduceLROnPlateauLRSchedule.state_dict, with the count that it leaves out."""

    @functools.wraps(state_dict)
    def whole_state(scheduler):
        return {**state_dict(scheduler), BAD_EPOCHS: scheduler.lr_scheduler.num_bad_epochs}

    return whole_state


def and_bad_epochs(load_state_dict):
    """ReduceLROnPlateauLRSchedule.load_state_dict, of other checkpoints, too."""

    @functools.wraps(load_state_dict)
    def load_whole(scheduler, state):
        load_state_dict(scheduler, state)
        scheduler.lr_scheduler.num_bad_epochs = state.get(BAD_EPOCHS, 0)

    return load_whole


def counters() -> dict:
    """Attributes of fairseq's function, in the program that runs: best, num_runs."""
    for module in ("__main__", "fairseq_cli.train"):
        function = getattr(sys.modules.get(module), "should_stop_early", None)
        if function is not None:
            return vars(function)
    return {}
