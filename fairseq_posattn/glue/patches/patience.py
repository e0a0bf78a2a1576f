"""Let early stopping and reduce_lr_on_plateau count on after an interruption.

fairseq forgets for how many validations nothing has improved. A resumed training would thus stop
later than an unbroken one (--patience), and lower its learning rate later.
"""

from __future__ import annotations

import functools
import sys

from fairseq import checkpoint_utils
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

KEY = "early_stopping"
EXTRA = "extra_validation"
BAD_EPOCHS = "num_bad_epochs"
BEFORE = "counts_before_validation"  # an attribute of the trainer


def noted(begin_valid_epoch):
    """Wrap Trainer.begin_valid_epoch to keep the counts before this validation."""

    @functools.wraps(begin_valid_epoch)
    def begin(trainer, epoch):
        best = vars(checkpoint_utils.save_checkpoint).get("best")
        setattr(trainer, BEFORE, {KEY: dict(counters()), "best": best})
        return begin_valid_epoch(trainer, epoch)

    return begin


def stored(save):
    """Wrap Trainer.save_checkpoint to store the counts of early stopping, too.

    A training that --max-update ends within an epoch validates once more than a longer training. If
    it goes on later, that validation must not count.
    """

    @functools.wraps(save)
    def save_checkpoint(trainer, filename, extra_state, *args, **kwargs):
        extra_state[KEY] = dict(counters())
        extra_state[EXTRA] = extra_state.get("val_loss") is not None and not is_due(
            trainer.cfg, trainer.get_num_updates(), extra_state["train_iterator"]
        )
        if extra_state[EXTRA]:
            extra_state.update(getattr(trainer, BEFORE))
            if extra_state["best"] is None:
                del extra_state["best"]
        return save(trainer, filename, extra_state, *args, **kwargs)

    return save_checkpoint


def is_due(cfg, updates: int, progress: dict) -> bool:
    """Return whether fairseq would validate here in a longer training."""
    if is_multiple(updates, cfg.dataset.validate_interval_updates):
        return True
    if progress["iterations_in_epoch"] == 0:  # then `epoch` is the next one
        return is_multiple(progress["epoch"] - 1, cfg.dataset.validate_interval)
    return is_multiple(updates, cfg.checkpoint.save_interval_updates)


def is_multiple(number: int, interval: int) -> bool:
    """Return whether the number is a multiple of an interval above 0."""
    return interval > 0 and number % interval == 0


def remembered(load):
    """Wrap checkpoint_utils.load_checkpoint to restore the counts, unless the meters are reset."""

    @functools.wraps(load)
    def load_checkpoint(cfg, trainer, *args, **kwargs):
        extra_state, *rest = load(cfg, trainer, *args, **kwargs)
        goes_on = trainer.get_num_updates() > 0  # it is 0 in fine-tuning
        if extra_state and goes_on and not cfg.reset_meters:
            counters().update(extra_state.get(KEY, {}))
            heed_last_validation(cfg, trainer, extra_state)
        return extra_state, *rest

    return load_checkpoint


def heed_last_validation(cfg, trainer, extra_state: dict) -> None:
    """Tell the scheduler the result of the last epoch, which the checkpoint was written too early
    to contain."""
    ended = extra_state["train_iterator"].get("iterations_in_epoch") == 0
    on_plateau = isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule)
    if ended and on_plateau and not cfg.reset_lr_scheduler:
        result = None if extra_state.get(EXTRA) else extra_state.get("val_loss")
        trainer.lr_step(extra_state["train_iterator"]["epoch"] - 1, result)


def is_lost(cfg) -> bool:
    """Return whether early stopping has ended the training."""
    allowed = cfg.checkpoint.patience
    return 0 < allowed <= counters().get("num_runs", 0) and not cfg.dataset.disable_validation


def with_bad_epochs(state_dict):
    """Wrap ReduceLROnPlateauLRSchedule.state_dict to add the count that it leaves out."""

    @functools.wraps(state_dict)
    def whole_state(scheduler):
        return {**state_dict(scheduler), BAD_EPOCHS: scheduler.lr_scheduler.num_bad_epochs}

    return whole_state


def and_bad_epochs(load_state_dict):
    """Wrap ReduceLROnPlateauLRSchedule.load_state_dict to restore that count where there is one."""

    @functools.wraps(load_state_dict)
    def load_whole(scheduler, state):
        load_state_dict(scheduler, state)
        scheduler.lr_scheduler.num_bad_epochs = state.get(BAD_EPOCHS, 0)

    return load_whole


def counters() -> dict:
    """Return the attributes of fairseq's function `should_stop_early`, in which the running program
    counts."""
    for module in ("__main__", "fairseq_cli.train"):
        function = getattr(sys.modules.get(module), "should_stop_early", None)
        if function is not None:
            return vars(function)
    return {}
