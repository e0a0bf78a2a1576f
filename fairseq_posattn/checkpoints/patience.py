"""Early stopping that outlives an interruption: fairseq forgets for how long nothing has improved,
so that a resumed training would stop later than an unbroken one."""

from __future__ import annotations

import functools
import sys

KEY = "early_stopping"


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
        return extra_state, *rest

    return load_checkpoint


def counters() -> dict:
    """Attributes of fairseq's function, in the program that runs: best, num_runs."""
    for module in ("__main__", "fairseq_cli.train"):
        function = getattr(sys.modules.get(module), "should_stop_early", None)
        if function is not None:
            return vars(function)
    return {}
