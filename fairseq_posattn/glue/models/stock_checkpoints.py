"""Load checkpoints of stock models into models with mechanisms, for --finetune-from-model."""

from __future__ import annotations

import logging

import torch
from torch import Tensor, nn

from fairseq_posattn.errors import InputError

logger = logging.getLogger(__name__)

DUPLICATES = {
    f"{part}_{kind}"
    for part in ("in_proj", "out_proj", "fc1", "fc2")
    for kind in ("weight", "bias")
}
ADDED = ("fuser.", "added_positions.", "embed_positions.added.", "shared_mechanisms.")
LABELS = "numbers_of_labels"  # the buffer that says what the numbers of labels mean
CROSS = "shared_cross_mechanisms."


def fit_state(state_dict: dict, module: nn.Module, name: str, pruned: bool) -> None:
    """Add the parameters of mechanisms and positions to a checkpoint that has none of them.

    Those of cross-attention are added to one that has none of cross-attention. A pruned model,
    which numbers its layers anew, forgets what only the layers share that it leaves out.
    """
    if pruned:
        kept = {f"{name}.{key}" for key in module.state_dict()}
        shared = (f"{name}.shared_mechanisms.", f"{name}.{CROSS}")
        for key in [key for key in state_dict if key.startswith(shared)]:
            if key not in kept:
                del state_dict[key]
        return
    of_self, of_cross = {}, {}
    for key, value in module.state_dict().items():
        if key.startswith(ADDED) or ".self_attn.mechanisms." in key:
            of_self[f"{name}.{key}"] = value
        elif key.startswith(CROSS) or ".encoder_attn.mechanisms." in key:
            of_cross[f"{name}.{key}"] = value
    for added in (of_self, of_cross):
        if added and not added.keys() & state_dict.keys():
            lacks = sorted(added)
            logger.warning("the checkpoint lacks these, so they start anew: %s", lacks)
            state_dict.update(added)


def digest(fingerprint: str) -> Tensor:
    """Return the fingerprint of the dictionaries of labels as numbers that every precision, and the
    mean of several checkpoints, keep as they are."""
    return torch.tensor(list(bytes.fromhex(fingerprint)), dtype=torch.float32)


def check_labels(state_dict: dict, module: nn.Module, name: str) -> None:
    """Refuse a checkpoint whose labels of words have other numbers than those of the data."""
    key, own = f"{name}.{LABELS}", module.state_dict().get(LABELS)
    if own is None:
        return
    found = state_dict.setdefault(key, own)  # a stock model has none
    if not torch.equal(found.float().round().cpu(), own.float().cpu()):
        raise InputError(
            "the labels of words have other numbers in these data than in those that the model was "
            "trained on; name the folder of its training data with --labels-of"
        )


def is_superfluous(key: str, encoder: str) -> bool:
    """Return whether this encoder has no place for a parameter of fairseq 0.12.2, which stores its
    layers' matrices a second time for a fast path, and a number with its positions."""
    duplicate = key.startswith(f"{encoder}.layers.") and key.rsplit(".", 1)[-1] in DUPLICATES
    return duplicate or key == f"{encoder}.embed_positions._float_tensor"
