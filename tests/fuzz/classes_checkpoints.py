"""Checkpoints of a training, read by posattn-average."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from random import Random

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


def within_a_tensor(data: bytes, random: Random) -> bytes:
    """Another byte among those of a tensor, for which the file has a checksum."""
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return data  # it is damaged already
    stored = [one for one in members if "/data/" in one.filename and one.file_size]
    if not stored:
        return data
    member = random.choice(stored)
    names = data[member.header_offset + 26 : member.header_offset + 30]
    begin = member.header_offset + 30 + sum(struct.unpack("<HH", names))
    k = begin + random.randrange(member.file_size)
    if k >= len(data):
        return data
    return data[:k] + bytes([data[k] ^ 1 << random.randrange(8)]) + data[k + 1 :]


def command(folder: Path) -> Command:
    from fairseq_posattn.cli.average import main

    options = [folder / "run", "--last", "2", "--out", folder / "averaged.pt"]
    return Command(main, options)


def averaged(folder: Path) -> dict[str, list]:
    """The parameters, whose bytes have a checksum in each checkpoint."""
    model = torch.load(folder / "averaged.pt")["model"]
    return {name: parameter.tolist() for name, parameter in model.items()}


add(
    InputClass(
        "checkpoints",
        build,
        command,
        damaged=["run/checkpoint*.pt"],
        mutations=[*BYTES, *[within_a_tensor] * 5],
        outputs=["averaged.pt"],
        result=averaged,
    )
)
