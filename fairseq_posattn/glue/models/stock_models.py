"""Let fairseq's own models work in an ensemble with models that read trees."""

from __future__ import annotations

from typing import Any


def ignore_trees(model: Any) -> None:
    """Let a stock model work beside models with trees in an ensemble: it drops the trees that it is
    given."""
    for module in (model, model.encoder):

        def forward(*args, _forward=module.forward, source_tree=None, **kwargs):
            return _forward(*args, **kwargs)

        module.forward = forward
    model.encoder.needs_tree = False  # so that nobody wraps the model a second time
