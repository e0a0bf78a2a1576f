"""Load a checkpoint and validate its content before it is used.

torch does not verify checksums, and a few bytes can make it create a tensor of any size. omegaconf
resolves all references in a configuration, including those to environment variables.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, BinaryIO

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
    """Return a replacement for the torch module that uses the function `load` below."""
    return stand_in(module, load=load)


def load(file: BinaryIO, *args, **kwargs) -> dict:
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
                f"its configuration contains {value!r}, which would be resolved on this machine; "
                "fairseq never writes such a value, so do not trust the file"
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
