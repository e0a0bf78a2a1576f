"""Make resumed training equivalent to uninterrupted training, and do not continue finished runs.

fairseq does not store the number of validations without improvement. A resumed run would therefore
stop (--patience) and lower its learning rate later than an uninterrupted run.

fairseq checks its limits only after an update. If a finished run is started again, fairseq would
therefore make another update (or, after early stopping, train another epoch) and overwrite the
checkpoints.
"""

import logging
import math
import os
import sys

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

logger = logging.getLogger(__name__)

KEY = "early_stopping"
EXTRA = "extra_validation"
BAD_EPOCHS = "num_bad_epochs"
BEFORE = "counts_before_validation"  # an attribute of the trainer
NO_EPOCH = -1  # as --max-epoch it allows no epoch; 0 would mean no limit


def same_batches(get_batch_iterator, task, dataset, *args, epoch: int = 1, **kwargs):
    """Wrapper for FairseqTask.get_batch_iterator that creates the same batches in resumed training.

    fairseq creates the batches once per process. The batches depend on the seed and on the epoch in
    which the process starts. The wrapper always creates them as if the process started in the first
    epoch.
    """
    anew = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
    if anew or dataset in task.dataset_to_epoch_iter or not task.can_reuse_epoch_itr(dataset):
        return get_batch_iterator(task, dataset, *args, epoch=epoch, **kwargs)
    iterator = get_batch_iterator(task, dataset, *args, epoch=1, **kwargs)
    iterator.epoch = max(epoch, 1)
    dataset.set_epoch(epoch)
    return iterator


def noted(begin_valid_epoch, trainer, epoch):
    """Wrapper for Trainer.begin_valid_epoch that records the early-stopping counters."""
    best = vars(checkpoint_utils.save_checkpoint).get("best")
    setattr(trainer, BEFORE, {KEY: dict(counters()), "best": best})
    return begin_valid_epoch(trainer, epoch)


def stored(save, trainer, filename, extra_state, *args, **kwargs):
    """Wrapper for Trainer.save_checkpoint that stores the early-stopping counters.

    A run that reaches --max-update within an epoch performs an additional validation. This
    validation is not counted if the run is extended later.
    """
    extra_state[KEY] = dict(counters())
    extra_state[EXTRA] = extra_state.get("val_loss") is not None and not is_due(
        trainer.cfg, trainer.get_num_updates(), extra_state["train_iterator"]
    )
    if extra_state[EXTRA]:
        extra_state.update(getattr(trainer, BEFORE))
        if extra_state["best"] is None:
            del extra_state["best"]
    return save(trainer, filename, extra_state, *args, **kwargs)


def is_due(cfg, updates: int, progress: dict) -> bool:
    """Return whether a longer training run would validate after this update."""
    if is_multiple(updates, cfg.dataset.validate_interval_updates):
        return True
    if progress["iterations_in_epoch"] == 0:  # then `epoch` is the next one
        return is_multiple(progress["epoch"] - 1, cfg.dataset.validate_interval)
    return is_multiple(updates, cfg.checkpoint.save_interval_updates)


def is_multiple(number: int, interval: int) -> bool:
    """Return whether `number` is a multiple of `interval`; False if `interval` is not positive."""
    return interval > 0 and number % interval == 0


def resumed(load, cfg, trainer, *args, **kwargs):
    """Wrapper for checkpoint_utils.load_checkpoint that ends finished training runs at once.

    It also restores the early-stopping counters, except with --reset-meters or in fine-tuning.
    """
    extra_state, epoch_itr = load(cfg, trainer, *args, **kwargs)
    if extra_state and trainer.get_num_updates() > 0 and not cfg.reset_meters:  # 0: fine-tuning
        counters().update(extra_state.get(KEY, {}))
        heed_last_validation(cfg, trainer, extra_state)
    reached = None
    if extra_state and goes_on(cfg, trainer):
        reached = limit_reached(trainer, epoch_itr, extra_state)
    if reached is not None:
        logger.info(
            f"This training is finished: {reached}. Nothing was changed; raise that limit to train "
            "longer"
        )
        trainer.cfg.optimization.max_epoch = NO_EPOCH
    trainer.within_epoch = epoch_itr.iterations_in_epoch > 0
    return extra_state, epoch_itr


def heed_last_validation(cfg, trainer, extra_state: dict) -> None:
    """Pass the last validation result to the learning-rate scheduler.

    The checkpoint was written before the scheduler received this result.
    """
    ended = extra_state["train_iterator"].get("iterations_in_epoch") == 0
    on_plateau = isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule)
    if ended and on_plateau and not cfg.reset_lr_scheduler:
        result = None if extra_state.get(EXTRA) else extra_state.get("val_loss")
        trainer.lr_step(extra_state["train_iterator"]["epoch"] - 1, result)


def with_bad_epochs(state_dict, scheduler):
    """Wrapper for ReduceLROnPlateauLRSchedule.state_dict that adds `num_bad_epochs`."""
    return {**state_dict(scheduler), BAD_EPOCHS: scheduler.lr_scheduler.num_bad_epochs}


def and_bad_epochs(load_state_dict, scheduler, state):
    """Wrapper for ReduceLROnPlateauLRSchedule.load_state_dict that restores `num_bad_epochs`."""
    load_state_dict(scheduler, state)
    scheduler.lr_scheduler.num_bad_epochs = state.get(BAD_EPOCHS, 0)


def counters() -> dict:
    """Return the attributes of fairseq's `should_stop_early`, which contain its counters."""
    for module in ("__main__", "fairseq_cli.train"):
        function = getattr(sys.modules.get(module), "should_stop_early", None)
        if function is not None:
            return vars(function)
    return {}


def goes_on(cfg, trainer) -> bool:
    """Return whether training resumes from its own last checkpoint.

    This is not the case if the number of updates is reset.
    """
    last = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
    named = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    is_last = os.path.realpath(named) == os.path.realpath(last)
    from_last = cfg.restore_file == "checkpoint_last.pt" or is_last
    return from_last and PathManager.exists(last) and trainer.get_num_updates() > 0


def limit_reached(trainer, epoch_itr, extra_state: dict) -> str | None:
    """Return a description of the limit that ended the training, or None if no limit is reached.

    All processes get the same result, because they read the same checkpoint.
    """
    limits, updates = trainer.cfg.optimization, trainer.get_num_updates()
    if limits.max_update and updates >= limits.max_update:
        return f"it has made {updates} updates (--max-update {limits.max_update})"
    if limits.max_epoch and epoch_itr.next_epoch_idx > limits.max_epoch:
        epochs = epoch_itr.next_epoch_idx - 1
        return f"it has made {epochs} epochs (--max-epoch {limits.max_epoch})"
    runs, validates = trainer.cfg.checkpoint.patience, not trainer.cfg.dataset.disable_validation
    if validates and 0 < runs <= counters().get("num_runs", 0):
        return f"the last {runs} validations brought no improvement (--patience {runs})"
    if epoch_itr.iterations_in_epoch == 0 and trainer.get_lr() <= limits.stop_min_lr:
        return f"its learning rate is {trainer.get_lr()} (--stop-min-lr {limits.stop_min_lr})"
    hours = extra_state.get("previous_training_time", 0) / 3600
    if 0 < limits.stop_time_hours < hours:
        return f"it has run {hours:.4g} hours (--stop-time-hours {limits.stop_time_hours})"
    return None


def between_epochs(get_lr, trainer):
    """Wrapper for Trainer.get_lr, which fairseq calls after loading to check --stop-min-lr.

    Uninterrupted training checks this limit only between epochs. If training resumes within an
    epoch, the wrapper therefore returns infinity, which exceeds any limit.
    """
    within_epoch = vars(trainer).pop("within_epoch", False)
    return math.inf if within_epoch else get_lr(trainer)
