"""Checkpoints of a training, read by posattn average: damaged, or with odd objects of numpy."""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

from .mutations import BYTES, LARGE
from .registry import Command, add

# what a file that is damaged already raises
DAMAGED = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    IndexError,
    struct.error,
)


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
    with contextlib.suppress(*DAMAGED):
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
        member = random.choice([m for m in members if "/data/" in m.filename and m.file_size])
        lengths = struct.unpack_from("<HH", data, member.header_offset + 26)
        k = member.header_offset + 30 + sum(lengths) + random.randrange(member.file_size)
        return data[:k] + bytes([data[k] ^ 1 << random.randrange(8)]) + data[k + 1 :]
    return data  # it is damaged already


def command(folder: Path) -> Command:
    from fairseq_posattn.cli.average import main

    options = [folder / "run", "--last", "2", "--out", folder / "averaged.pt"]
    return Command(main, options)


def averaged(folder: Path) -> dict[str, list]:
    """The parameters, whose bytes have a checksum in each checkpoint."""
    model = torch.load(folder / "averaged.pt")["model"]
    return {name: parameter.tolist() for name, parameter in model.items()}


CHECKPOINTS = ("checkpoints", build, "run/checkpoint*.pt", [*BYTES, *[within_a_tensor] * 5])
add(*CHECKPOINTS, "averaged.pt", result=averaged)(command)


RECONSTRUCT, SCALAR = (found.__reduce__()[0] for found in (np.zeros(1), np.float64(1)))
TYPES = ["f8", "i4", "O", "O8", "V8", "U4", "S3", "M8[s]", "m8", "c8", "f9", "i0", "b1", "x", ""]


class Made:
    """An object whose pickle calls a function, and gives what comes of it a state."""

    def __init__(self, function: Callable, arguments: tuple, *state):
        self.parts = function, arguments, *state

    def __reduce__(self):
        return self.parts


def plain_type(name: str) -> Made:
    return Made(np.dtype, (name, False, True), (3, "<", None, None, None, -1, -1, 0))


def odd_type(random: Random) -> Made:
    """A dtype by its name; its state may claim fields, a size, a subarray or pointers."""
    order = random.choice(["<", ">", "|", "=", "?", "", None, 1])
    names = random.choice([None, None, ("a",), (), "a"])
    fields = random.choice([None, {"a": (np.dtype("O"), 0)}, {"a": (np.dtype("f8"), 2**31)}])
    size, flags = random.choice([-1, *LARGE]), random.choice([0, 63, -1, 2**40])
    whole = (random.choice([3, 4, 99]), order, None, names, fields, size, -1, flags)
    state = random.choice([whole, whole, whole[:2], (), None])
    return Made(np.dtype, (random.choice(TYPES), False, True), state)


def odd_array(random: Random) -> Made:
    """An array whose shape, type or data do not fit each other."""
    shape = random.choice([(2,), (), (0,), (-1,), (2**40,), (2**33, 2**33), [2], "a", None, (2.5,)])
    kind = random.choice([plain_type("f8"), odd_type(random), np.dtype("f8"), None, "f8"])
    data = random.choice([bytes(16), b"", bytes(15), [1.0, 2.0], [{}], "ab", None, bytes(8)])
    begin = random.choice([np.ndarray, np.matrix, np.recarray, np.memmap, np.dtype])
    whole = (random.choice([1, 0, 99]), shape, kind, random.choice([False, True, None]), data)
    return Made(RECONSTRUCT, (begin, (0,), b"b"), random.choice([whole, whole, whole[:3], ()]))


def odd_number(random: Random) -> Made:
    kind = random.choice([plain_type("f8"), odd_type(random), np.dtype("i4"), "f8", None])
    return Made(SCALAR, (kind, random.choice([bytes(8), bytes(7), b"", None, "ab", [1], {}])))


OBJECTS: list[Callable[[Random], Any]] = [
    *[odd_type, odd_array, odd_number] * 3,
    lambda random: np.array([{}, []], dtype=object),
    lambda random: np.zeros(2, [("a", "i4"), ("b", "O")]),
    lambda random: np.zeros(2, [("a", "i4", (2, 2)), ("b", "f8")]),
    lambda random: np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    lambda random: np.ma.masked_array([1.0, 2.0], [True, False]),
    lambda random: np.array(["a", "bc"]),
    lambda random: np.array(["2000-01-01"], "M8[D]"),
    lambda random: np.datetime64("2000-01-01"),
    lambda random: np.str_("a"),
    lambda random: np.void(b"ab"),
    lambda random: np.arange(6.0).reshape(2, 3).T,
    lambda random: np.arange(6, dtype=">i2")[::2],
    lambda random: np.random.RandomState(1),
    lambda random: np.random.default_rng(1),
    lambda random: np.add,
    lambda random: np.dtype([("a", "O")]),
]


def with_an_object(data: bytes, random: Random) -> bytes:
    """Put an object of numpy somewhere into a checkpoint."""
    try:
        state = torch.load(io.BytesIO(data), weights_only=True)  # objects of before stay unloaded
    except Exception:  # it is damaged already
        return data
    found = random.choice(OBJECTS)(random)
    places = ["extra_state", "cfg", "model", "last_optimizer_state", "new"]
    place = random.choice([None, *places])
    if place is None or not isinstance(state.get(place, {}), dict):
        state = {**state, "new": found}
    else:
        state.setdefault(place, {})[random.choice(["a", "embed"])] = found
    out = io.BytesIO()
    torch.save(state, out)
    return out.getvalue()


def within_the_pickle(data: bytes, random: Random) -> bytes:
    """Damage the pickle in a checkpoint; the checksum of the zip file fits."""
    out = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
            for member in old.namelist():
                content = old.read(member)
                if member.endswith("data.pkl"):
                    content = random.choice(BYTES)(content, random)
                new.writestr(member, content)
    except DAMAGED:
        return data
    return out.getvalue()


def with_numbers(folder: Path) -> None:
    """As after --eval-bleu: numpy's numbers and arrays among the metrics."""
    build(folder)
    for path in folder.glob("run/*.pt"):
        state = torch.load(path, weights_only=False)
        counts = {"counts": np.arange(4), "bleu": np.float64(20.5)}
        torch.save({**state, "extra_state": {"metrics": counts}}, path)


def average(folder: Path) -> Command:
    """Average, and load what was written, as the next program does."""
    from fairseq_posattn.fairseq_plugin.patches.safe import load_plain

    main, options, _ = command(folder)

    def average_and_load() -> None:
        main()
        load_plain(folder / "averaged.pt")

    return Command(average_and_load, options)


add(
    "checkpoints with objects of numpy",
    with_numbers,
    "run/checkpoint*.pt",
    [with_an_object, with_an_object, within_the_pickle],
    "averaged.pt",
)(average)
