"""Checkpoints of a training, read by posattn-average."""

from __future__ import annotations

from pathlib import Path

import torch

from .mutations import BYTES
from .registry import add
from .runner import Command, InputClass


def build(folder: Path) -> None:
    run = folder / "run"
    run.mkdir()
    for number in (1, 2):
        weights = {"embed": torch.randn(7, 4), "out.bias": torch.randn(9)}
        configuration = {"common": {"seed": 1, "project": "a word"}}
        state = {"model": weights, "cfg": configuration, "last_optimizer_state": dict(weights)}
        torch.save(state, run / f"checkpoint{number}.pt")


def command(folder: Path) -> Command:
    from fairseq_posattn.cli.average import main

    options = [folder / "run", "--last", "2", "--out", folder / "averaged.pt"]
    return Command(main, options)


add(
    InputClass(
        "checkpoints",
        build,
        command,
        damaged=["run/checkpoint*.pt"],
        mutations=BYTES,
        outputs=["averaged.pt"],
    )
)
