"""Read from a checkpoint how it was trained."""

from __future__ import annotations

from pathlib import Path


def batches_of(checkpoint: Path) -> tuple[str, str, str]:
    """Return the number of processes, the tokens of each at once, and the batches of an update, as
    options have them."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    from fairseq_posattn import plugin  # noqa: F401  (it loads checkpoints safely)

    config = load_checkpoint_to_cpu(str(checkpoint))["cfg"]
    batches = ",".join(map(str, config["optimization"]["update_freq"]))
    processes = config["distributed_training"]["distributed_world_size"]
    return str(processes), str(config["dataset"]["max_tokens"]), batches
