"""Loading plain data and a few harmless classes only; all else is refused, with the reason.

fairseq's checkpoints hold, beside tensors and plain data, the namespace of a model without options
class (the stock `transformer`), and after `--eval-bleu` numpy arrays of counts. numpy's own
classes are not harmless: the state of a dtype can make raw bytes pass for pointers to objects. So
their names stand for the classes of numbers below.
"""

from __future__ import annotations

import argparse
import functools
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fairseq_posattn.glue.patches.errors import CheckpointError


class NumberType:
    """Read where a numpy dtype was stored: a number type and its byte order, nothing else."""

    def __init__(self, name: str, *_):
        if not re.fullmatch(r"[iufc]\d+|b1", str(name)):
            raise pickle.UnpicklingError(f"an array of type {name!r}")
        self.dtype = np.dtype(str(name))

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class Numbers(np.ndarray):
    """Read where a numpy array was stored; an array of numbers in all else."""

    def __new__(cls, *_):
        return super().__new__(cls, (0,))

    def __setstate__(self, state: tuple) -> None:
        _, shape, number_type, fortran, data = state
        super().__setstate__((1, shape, checked(number_type).dtype, fortran, data))

    def __reduce__(self):
        return np.asarray(self).__reduce__()  # stored as numpy's own again


def number(number_type: NumberType, data: bytes) -> np.generic:
    """Read where a numpy scalar was stored."""
    return np.frombuffer(data, checked(number_type).dtype)[0]


def checked(number_type) -> NumberType:
    if not isinstance(number_type, NumberType):
        raise pickle.UnpicklingError("an array whose type is not one of numbers")
    return number_type


def new_numbers(*_) -> Numbers:
    return Numbers()


SAFE_CLASSES: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    argparse.Namespace,
    (Numbers, "numpy.ndarray"),
    (NumberType, "numpy.dtype"),
    *((new_numbers, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def register_classes() -> None:
    """torch.load from 2.6 on refuses all classes but these; older torch runs any code."""
    if loads_weights_only():
        torch.serialization.add_safe_globals(SAFE_CLASSES)
        return
    warnings.warn(
        f"torch {torch.__version__} loads checkpoints without a check of their classes: load "
        "only files that you trust, or use torch 2.6 or later",
        stacklevel=2,
    )


def loads_weights_only() -> bool:
    """Whether torch.load checks classes unless told otherwise: from 2.6 on."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)


def explained(load):
    """Load; say in one line what is wrong with a torn, a damaged or an unsafe file."""

    @functools.wraps(load)
    def load_explained(path, *args, **kwargs):
        if is_torn(path):
            raise CheckpointError(
                f"{path} is torn: the end is missing, its writing was broken off. Take another "
                "checkpoint, or copy the file again"
            )
        try:
            return load(path, *args, **kwargs)
        except (OSError, MemoryError):
            raise
        except pickle.UnpicklingError as error:
            raise CheckpointError(refusal(path, error)) from error
        except Exception as error:
            raise CheckpointError(
                f"{path} cannot be read as a checkpoint of fairseq ({reason(error)}): it is "
                "damaged, or something else; take another one"
            ) from error

    return load_explained


@explained
def load_plain(path) -> dict:
    """The content of a checkpoint's file as it is: its configuration is plain text and numbers, in
    which nothing has been looked up."""
    state = torch.load(path, map_location="cpu")
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(map(torch.is_tensor, model.values())):
        raise ValueError("it holds no parameters")
    return state


def reason(error: Exception) -> str:
    """The first line of an error, of some words."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:80]


def is_torn(path) -> bool:
    """A checkpoint is a zip file, whose directory stands at its end."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
        return len(start) < 4 or (start == b"PK\x03\x04" and not zipfile.is_zipfile(path))
    except OSError:  # not there, or not on this machine: fairseq's business
        return False
    except zipfile.BadZipFile:
        return True


def refusal(path, error: Exception) -> str:
    found = re.search(r"GLOBAL (\S+)|(an array [^\n]*)", str(error))
    what = (found[1] or found[2]) if found else "an object that is not plain data"
    return (
        f"{path} is refused: it holds {what}. Loading anything but tensors and plain data could "
        "run code that somebody hid in the file. If you made it yourself and need that class, "
        "allow it with torch.serialization.add_safe_globals in a --user-dir of yours"
    )
