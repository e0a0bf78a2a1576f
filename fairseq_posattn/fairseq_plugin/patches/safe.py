"""Load only plain data and a few harmless classes from checkpoints, and validate their content.

Besides tensors and plain data, fairseq's checkpoints may contain a Namespace, for models without a
configuration dataclass (such as the stock `transformer`), and numpy arrays of counts, if training
used `--eval-bleu`. numpy's own classes are unsafe, because the state of a dtype can turn raw bytes
into pointers to objects. Therefore they are replaced by the classes of this module. All other
classes are rejected.

torch does not verify checksums, and a few bytes can make it create a tensor of any size. omegaconf
resolves all references in a configuration, including those to environment variables.
"""

import contextlib
import errno
import os
import pickle
import re
import warnings
import zipfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches.patch import stand_in

ZIP = b"PK\x03\x04"
PICKLE = b"\x80"  # the format of torch before 1.6
NAMES = 64  # how many names a checkpoint may give to each of its parameters, on average
DAMAGED = "the file is damaged or not a fairseq checkpoint; use another one"
LOOKED_UP = "${"  # the start of an interpolation, which omegaconf resolves on access


class CheckpointError(InputError):
    """Raised if a checkpoint cannot be loaded or must not be written."""


class UnfitStateError(ValueError):
    """Raised if the content of a checkpoint is invalid.

    The message does not contain the file name.
    """


def with_checks(module: ModuleType) -> ModuleType:
    """Return a replacement for the torch module that uses `load_checked`."""
    return stand_in(module, load=load_checked)


def load_checked(file: BinaryIO, *args, **kwargs) -> dict:
    """Return the content of an open checkpoint; raise an UnfitStateError if it is invalid."""
    size = os.fstat(file.fileno()).st_size
    check_file(file, size)
    state = torch.load(file, *args, **kwargs)
    check_parts(state)
    check_tensors((value for value in leaves(state) if torch.is_tensor(value)), size)
    for part in ("cfg", "args"):
        refuse_look_ups(leaves(state.get(part)))
    return state


def check_file(file: BinaryIO, size: int) -> None:
    """Raise an UnfitStateError if a file was not written by torch, or was changed afterwards."""
    start = file.read(len(ZIP))
    if start == ZIP:
        with whole_zip(file) as archive:
            if sum(part.file_size for part in archive.infolist()) > size:
                raise UnfitStateError(f"its parts are larger than the file; {DAMAGED}")
            if (part := archive.testzip()) is not None:
                raise UnfitStateError(f"its part {part} has a wrong checksum; {DAMAGED}")
    elif not start.startswith(PICKLE):
        raise UnfitStateError(f"the file does not start with the header of a torch file; {DAMAGED}")
    file.seek(0)


@contextlib.contextmanager
def whole_zip(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; raise an UnfitStateError if it refers to parts outside the file.

    For such an archive, zipfile would seek to a negative offset.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UnfitStateError(
            f"its zip archive refers to data beyond the end of the file; {DAMAGED}"
        ) from error


def check_parts(state: Any) -> None:
    """Raise an UnfitStateError if entries of a checkpoint do not have the expected types."""
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not model or not all(map(torch.is_tensor, model.values())):
        raise UnfitStateError(f"it contains no parameters; {DAMAGED}")
    for name, kind in {"cfg": dict, "args": Namespace, "task_state": dict}.items():
        if not isinstance(state.get(name), kind | None):
            found = type(state[name]).__name__
            raise UnfitStateError(f"its '{name}' has the type {found}; {DAMAGED}")


def check_tensors(tensors: Iterable[torch.Tensor], size: int) -> None:
    """Raise an UnfitStateError if tensors are too large for the size of the file.

    A parameter that is shared by several modules is stored once, but has several names. Therefore
    all tensors together may have up to `NAMES` times the size of the file.
    """
    total = 0
    for tensor in tensors:
        wanted = tensor.numel() * tensor.element_size()
        plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
        stored = tensor.untyped_storage().nbytes() if plain else 0
        total += wanted
        if wanted > min(stored, size) or total > NAMES * size:
            raise UnfitStateError(
                f"a tensor of shape {tuple(tensor.shape)} has more elements than the file stores "
                f"for it; {DAMAGED}"
            )


def refuse_look_ups(values: Iterable[Any]) -> None:
    """Raise an UnfitStateError if a configuration contains an interpolation.

    fairseq itself writes only plain values, and never an interpolation such as ${oc.env:HOME}.
    """
    for value in values:
        if isinstance(value, str) and LOOKED_UP in value:
            raise UnfitStateError(
                f"its configuration contains the interpolation {value!r}, which would be resolved "
                "here; fairseq never writes one, so do not trust the file"
            )


def leaves(value: Any) -> Iterator[Any]:
    """Yield all values in nested containers; each container is visited only once."""
    seen, rest = set(), [value]
    while rest:
        value = rest.pop()
        inner = vars(value) if isinstance(value, Namespace) else value
        if not isinstance(inner, dict | list | tuple | set):
            yield value
        elif id(inner) not in seen:
            seen.add(id(inner))
            rest += [*inner, *inner.values()] if isinstance(inner, dict) else inner


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
    Namespace,
    (Numbers, "numpy.ndarray"),
    (NumberType, "numpy.dtype"),
    *((new_numbers, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *((number, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
]


def register_classes() -> None:
    """Allow SAFE_CLASSES in torch.load, which rejects all other classes in torch 2.6+.

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
    """Return whether torch.load uses weights_only=True by default, as it has since torch 2.6."""
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
    except UnfitStateError as error:
        raise CheckpointError(f"{path}: {error}") from error
    except Exception as error:
        raise CheckpointError(refusal(path, error) or damage(path, error)) from error


def load_plain(path) -> dict:
    """Return the content of a checkpoint, with its configuration as plain dictionaries."""

    def load(path) -> dict:
        with open(path, "rb") as file:
            return load_checked(file, map_location="cpu")

    return explained(load, path)


def damage(path, error: Exception) -> str:
    """Return the error message for a file that is not a checkpoint, with the original error."""
    text = str(error).rpartition("WeightsUnpickler error:")[2].strip()
    reason = f"{type(error).__name__}: {text}".splitlines()[0][:80]
    return f"{path} cannot be read as a checkpoint ({reason}); {DAMAGED}"


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
