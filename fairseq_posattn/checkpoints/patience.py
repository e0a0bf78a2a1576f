"""Patience that outlives an interruption: fairseq forgets for how long nothing has improved, so
that a resumed training would stop later than an unbroken one (--patience), and lower its learning
rate later (reduce_lr_on_plateau)."""

from __future__ import annotations

import functools
import sys

from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

KEY = "early_stopping"
BAD_EPOCHS = "num_bad_epochs"


def stored(save):
    """Trainer.save_checkpoint: with what early stopping counts."""

    @functools.wraps(save)
    def save_checkpoint(trainer, filename, extra_state, *args, **kwargs):
        extra_state[KEY] = dict(counters())
        return save(trainer, filename, extra_state, *args, **kwargs)

    return save_checkpoint


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
        trainer.lr_step(extra_state["train_iterator"]["epoch"] - 1, extra_state.get("val_loss"))


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
