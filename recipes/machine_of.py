"""Print with how many processes, and with what batches, a checkpoint was trained.

python recipes/machine_of.py CHECKPOINT.pt
"""

from __future__ import annotations

import sys

from fairseq_posattn.io import command_line


def main() -> None:
    """Print the processes, tokens and batches of the checkpoint."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    from fairseq_posattn import plugin  # noqa: F401  (it loads checkpoints safely)

    config = load_checkpoint_to_cpu(sys.argv[1])["cfg"]
    processes = config["distributed_training"]["distributed_world_size"]
    tokens = config["dataset"]["max_tokens"]
    [batches, *_] = config["optimization"]["update_freq"]
    print(f"{processes} processes, {tokens} tokens, {batches} batches")


if __name__ == "__main__":
    command_line.run(main)
