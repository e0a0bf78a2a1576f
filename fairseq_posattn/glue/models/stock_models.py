"""fairseq's own models in an ensemble with models that read trees."""

from __future__ import annotations

from typing import Any


def ignore_trees(model: Any) -> None:
    """Let a stock model stand beside tree models in an ensemble: it is not handed the trees."""
    for module in (model, model.encoder):

        def forward(*args, _forward=module.forward, source_tree=None, **kwargs):
            return _forward(*args, **kwargs)

        module.forward = forward
    model.encoder.needs_tree = False  # known from now on
