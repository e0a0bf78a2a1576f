"""Load only plain data and a few harmless classes from checkpoints.

Besides tensors and plain data, fairseq's checkpoints may contain a Namespace, for models without a
configuration dataclass (such as the stock `transformer`), and numpy arrays of counts, if training
used `--eval-bleu`. numpy's own classes are unsafe, because the state of a dtype can turn raw bytes
into pointers to objects. Therefore they are replaced by the classes of this module. All other
classes are rejected.
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

from fairseq_posattn.fairseq_plugin.patches import checked_state
from fairseq_posattn.fairseq_plugin.patches.checked_state import CheckpointError

CLASS = re.compile(r"GLOBAL ([\w.]+)|(an array [^\n]*)")


class NumberType:
    """Replaces a numpy dtype in a file; only numeric types and their byte order are permitted."""

    def __init__(self, name: str, *_):
        if not re.fullmatch(r"[iufc]\d+|b1", str(name)):
            raise pickle.UnpicklingError(f"an array of type {name!r}")
        self.dtype = np.dtype(str(name))

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])

    def __reduce__(self):
        return self.dtype.__reduce__()  # a new checkpoint stores numpy's own class


class Numbers(np.ndarray):
    """Replaces a numpy array in a file with an array that can contain only numbers."""

    def __new__(cls, *_):
        return super().__new__(cls, (0,))

    def __setstate__(self, state: tuple) -> None:
        _, shape, number_type, fortran, data = state
        super().__setstate__((1, shape, checked(number_type).dtype, fortran, data))

    def __reduce__(self):
        return np.asarray(self).__reduce__()  # a new checkpoint stores numpy's own class


def number(number_type: NumberType, data: bytes) -> np.generic:
    """Return the numpy scalar that is stored in a file."""
    return np.frombuffer(data, checked(number_type).dtype)[0]


def checked(number_type) -> NumberType:
    """Return `number_type` if it is a numeric type, or else raise an UnpicklingError."""
    if not isinstance(number_type, NumberType):
        raise pickle.UnpicklingError("an array or scalar whose dtype is not numeric")
    return number_type


def new_numbers(*_) -> Numbers:
    """Return an empty array, which is filled by `__setstate__`."""
    return Numbers()


SAFE_CLASSES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    (Numbers, "numpy.ndarray"),
    (NumberType, "numpy.dtype"),
    *((new_numbers, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def register_classes() -> None:
    """Allow SAFE_CLASSES in torch.load, which rejects all other classes since torch 2.6.

    For older versions, issue a warning, because their torch.load can execute arbitrary code.
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
    """Return whether torch.load uses weights_only=True by default, as it does since torch 2.6."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)


def explained(load, path, *args, **kwargs):
    """Wrapper for a file-loading function that explains errors in one line.

    Raise a CheckpointError if the file is incomplete, damaged or unsafe.
    """
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
    """Return the error message for a file that is not a checkpoint, with the original error."""
    text = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    reason = f"{type(error).__name__}: {text}".splitlines()[0][:80]
    return f"{path} cannot be read as a checkpoint ({reason}); {checked_state.DAMAGED}"


def is_torn(path) -> bool:
    """Return whether a file is truncated.

    A truncated zip archive lacks the directory at its end.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        return len(start) < 4 or (start == b"PK\x03\x04" and not zipfile.is_zipfile(path))
    except OSError:  # fairseq handles files that are missing or on other machines
        return False
    except zipfile.BadZipFile:
        return True


def refusal(path, error: Exception) -> str | None:
    """Return the error message for a file with an unsafe class, or None if it has no such class."""
    found = CLASS.search(str(error)) if isinstance(error, pickle.UnpicklingError) else None
    return found and (
        f"{path} contains {found[1] or found[2]}, and loading anything but tensors and plain data "
        "could run code hidden in the file; use another file, or, if you made this one yourself, "
        "allow the class with torch.serialization.add_safe_globals in your --user-dir"
    )
