"""Rename options and parameters of checkpoints of version 0.1.0 that have other names now.

| in 0.1.0                                    | now                              |
|---------------------------------------------|----------------------------------|
| convolved_1d, convolved_2d (start=glorot)   | (init=glorot_normal)             |
| any other start=...                         | init=...                         |
| attention_s2s: decoder.attention.ask, .tell | .query_proj, .key_proj           |
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator

SPECIFICATIONS = ("encoder_attention", "decoder_attention")
OPTIONS = (
    (re.compile(r"(convolved_[12]d\s*\([^()]*)\bstart\s*=\s*glorot\b"), r"\1init=glorot_normal"),
    (re.compile(r"\bstart\s*="), "init="),
)
PARAMETERS = {
    "decoder.attention.ask.": "decoder.attention.query_proj.",
    "decoder.attention.tell.": "decoder.attention.key_proj.",
}


def renamed(load: Callable[..., dict]) -> Callable[..., dict]:
    """Wrap checkpoint_utils.load_checkpoint_to_cpu to give what it loads the names of this
    version."""

    @functools.wraps(load)
    def load_renamed(*args, **kwargs) -> dict:
        state = load(*args, **kwargs)
        for options in options_of_model(state):
            rename_options(options)
        averages = (state.get("extra_state") or {}).get("ema")  # stored by --store-ema
        for parameters in (state.get("model"), averages):
            if isinstance(parameters, dict):
                rename_parameters(parameters)
        return state

    return load_renamed


def options_of_model(state: dict) -> Iterator[object]:
    """Yield the options of the model, which stand under `cfg`, or under `args` in very old
    checkpoints."""
    if state.get("cfg") is not None and state["cfg"].get("model") is not None:
        yield state["cfg"]["model"]
    if state.get("args") is not None:
        yield state["args"]


def rename_options(options) -> None:
    """Rename options inside each specification of attention, in place.

    `options` is a namespace or a DictConfig.
    """
    for name in SPECIFICATIONS:
        value = getattr(options, name, None)
        if isinstance(value, str) and new_specification(value) != value:
            setattr(options, name, new_specification(value))


def new_specification(text: str) -> str:
    """Return a specification of attention as this version writes it."""
    for old, new in OPTIONS:
        text = old.sub(new, text)
    return text


def rename_parameters(model: dict) -> None:
    """Rename parameters in place without changing their order."""
    for name in list(model):
        model[new_parameter(name)] = model.pop(name)


def new_parameter(name: str) -> str:
    """Return the name that a parameter has in this version."""
    for old, new in PARAMETERS.items():
        if name.startswith(old):
            return new + name[len(old) :]
    return name
