"""Load checkpoints of stock models into models with mechanisms, for --finetune-from-model."""

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
LABELS = "numbers_of_labels"  # the buffer with the fingerprint of the label dictionaries
CROSS = "shared_cross_mechanisms."


def fit_state(state_dict: dict, module: nn.Module, name: str, pruned: bool) -> None:
    """Add the parameters of mechanisms and positions to a checkpoint that contains none of them.

    The parameters of the cross-attention are added independently of the others. For a pruned model,
    nothing is added; instead, shared parameters that no remaining layer uses are removed.
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
            logger.warning("initialised parameters that the checkpoint lacks: %s", lacks)
            state_dict.update(added)


def digest(fingerprint: str) -> Tensor:
    """Convert a hexadecimal fingerprint to a float tensor with one element per byte.

    Half precision represents the values from 0 to 255 exactly, so neither conversion nor
    checkpoint averaging changes them.
    """
    return torch.tensor(list(bytes.fromhex(fingerprint)), dtype=torch.float32)


def check_labels(state_dict: dict, module: nn.Module, name: str) -> None:
    """Raise an InputError if the checkpoint was trained with different label dictionaries."""
    key, own = f"{name}.{LABELS}", module.state_dict().get(LABELS)
    if own is None:
        return
    found = state_dict.setdefault(key, own)  # a stock model has none
    if not torch.equal(found.float().round().cpu(), own.float().cpu()):
        raise InputError(
            "the label dictionaries of these data differ from those of the model's training data; "
            "pass the folder of the training data with --labels-of"
        )


def is_superfluous(key: str, encoder: str) -> bool:
    """Return whether a parameter is one of the redundant parameters of fairseq 0.12.2.

    That release stores a dummy tensor, and a copy of the weights of encoder layers for a fast path.
    """
    duplicate = key.startswith(f"{encoder}.layers.") and key.rsplit(".", 1)[-1] in DUPLICATES
    return duplicate or key == f"{encoder}.embed_positions._float_tensor"
