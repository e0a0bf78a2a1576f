"""Load only plain data and a few harmless classes from checkpoints.

Besides tensors and plain data, fairseq's checkpoints contain a namespace, for models without a
dataclass of options (the stock `transformer`), and numpy arrays of counts, after `--eval-bleu`.
numpy's own classes are unsafe, because the state of a dtype can turn raw bytes into pointers to
objects. The classes of this module are loaded instead of them, and all others are refused.
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fairseq_posattn.glue.patches import checked_state
from fairseq_posattn.glue.patches.checked_state import CheckpointError

CLASS = re.compile(r"GLOBAL ([\w.]+)|(an array [^\n]*)")


class NumberType:
    """Replaces a numpy dtype of a file; admits numeric types and their byte order only."""

    def __init__(self, name: str, *_):
        if not re.fullmatch(r"[iufc]\d+|b1", str(name)):
            raise pickle.UnpicklingError(f"an array of type {name!r}")
        self.dtype = np.dtype(str(name))

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])

    def __reduce__(self):
        return self.dtype.__reduce__()  # a new checkpoint stores numpy's own class


class Numbers(np.ndarray):
    """Replaces a numpy array of a file, by an array that can only contain numbers."""

    def __new__(cls, *_):
        return super().__new__(cls, (0,))

    def __setstate__(self, state: tuple) -> None:
        _, shape, number_type, fortran, data = state
        super().__setstate__((1, shape, checked(number_type).dtype, fortran, data))

    def __reduce__(self):
        return np.asarray(self).__reduce__()  # a new checkpoint stores numpy's own class


def number(number_type: NumberType, data: bytes) -> np.generic:
    """Replace a numpy scalar of a file."""
    return np.frombuffer(data, checked(number_type).dtype)[0]


def checked(number_type) -> NumberType:
    """Return the type if it is numeric; raise an UnpicklingError otherwise."""
    if not isinstance(number_type, NumberType):
        raise pickle.UnpicklingError("an array whose type is not one of numbers")
    return number_type


def new_numbers(*_) -> Numbers:
    """Return an empty array, which `__setstate__` fills."""
    return Numbers()


SAFE_CLASSES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    (Numbers, "numpy.ndarray"),
    (NumberType, "numpy.dtype"),
    *((new_numbers, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def register_classes() -> None:
    """Allow SAFE_CLASSES in torch.load, which refuses all others as of torch 2.6.

    Warn if torch is older, because its torch.load can run any code.
    """
    if loads_weights_only():
        torch.serialization.add_safe_globals(SAFE_CLASSES)
        return
    warnings.warn(
        f"torch {torch.__version__} loads checkpoints without checking their classes; load only "
        "files that you trust, or use torch 2.6 or later",
        stacklevel=2,
    )


def loads_weights_only() -> bool:
    """Return whether torch.load checks classes by default, which it does as of torch 2.6."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)


def explained(load, path, *args, **kwargs):
    """Wrap a function that loads a file, to raise a CheckpointError of one line if the file is
    incomplete, damaged or unsafe."""
    if is_torn(path):
        raise CheckpointError(
            f"{path} is incomplete, because writing or copying it was interrupted; use another "
            "checkpoint, or copy the file again"
        )
    try:
        return load(path, *args, **kwargs)
    except (OSError, MemoryError):
        raise
    except checked_state.UnfitStateError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except Exception as error:
        raise CheckpointError(refusal(path, error) or damage(path, error)) from error


def load_plain(path) -> dict:
    """Return the content of a checkpoint, with its configuration as plain dictionaries."""

    def load(path) -> dict:
        with open(path, "rb") as file:
            return checked_state.load(file, map_location="cpu")

    return explained(load, path)


def damage(path, error: Exception) -> str:
    """Return the message for a file that is not a checkpoint, with the start of the error."""
    text = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    reason = f"{type(error).__name__}: {text}".splitlines()[0][:80]
    return f"{path} cannot be read as a checkpoint ({reason}); {checked_state.DAMAGED}"


def is_torn(path) -> bool:
    """Return whether a file is truncated, that is, its zip archive has no directory at the end."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        return len(start) < 4 or (start == b"PK\x03\x04" and not zipfile.is_zipfile(path))
    except OSError:  # fairseq handles files that are missing or on other machines
        return False
    except zipfile.BadZipFile:
        return True


def refusal(path, error: Exception) -> str | None:
    """Return the message for a file that contains an unsafe class, or None if it contains none."""
    found = CLASS.search(str(error)) if isinstance(error, pickle.UnpicklingError) else None
    return found and (
        f"{path} contains {found[1] or found[2]}, and loading anything but tensors and plain data "
        "could run code hidden in the file; use another file, or, if you made this one yourself, "
        "allow the class with torch.serialization.add_safe_globals in your --user-dir"
    )
