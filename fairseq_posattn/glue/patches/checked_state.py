"""Load the content of a checkpoint, and check it before anything is made of it.

torch checks no checksum, makes a tensor of any size from few bytes, and omegaconf looks up whatever
a configuration names, such as variables of the environment.
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
from fairseq_posattn.glue.patches.patch import stand_in

ZIP = b"PK\x03\x04"
PICKLE = b"\x80"  # the format of torch before 1.6
NAMES = 64  # the most names under which a checkpoint may hold all its parameters at once
DAMAGED = "the file is damaged, or not a checkpoint of fairseq; take another one"
LOOKED_UP = "${"  # begins what omegaconf looks up when it is read


class CheckpointError(InputError):
    """This error says that a checkpoint cannot be loaded or must not be written."""


class UnfitStateError(ValueError):
    """This error tells what is wrong with the content of a file, and what to do."""


def with_checks(module: ModuleType) -> ModuleType:
    """Return torch for fairseq's module of checkpoints, which loads files with these checks."""
    return stand_in(module, load=load)


def load(file: BinaryIO, *args, **kwargs) -> dict:
    """Return the content of an open checkpoint, or refuse it with the reason."""
    size = os.fstat(file.fileno()).st_size
    check_file(file, size)
    state = torch.load(file, *args, **kwargs)
    check_parts(state)
    check_tensors((value for value in leaves(state) if torch.is_tensor(value)), size)
    for part in ("cfg", "args"):
        refuse_look_ups(leaves(state.get(part)))
    return state


def check_file(file: BinaryIO, size: int) -> None:
    """Refuse a file that torch has not written, or that has changed since."""
    start = file.read(len(ZIP))
    if start == ZIP:
        with whole_zip(file) as archive:
            if sum(part.file_size for part in archive.infolist()) > size:
                raise UnfitStateError(f"its parts are larger than the file; {DAMAGED}")
            if (part := archive.testzip()) is not None:
                raise UnfitStateError(f"{part} in it has another checksum; {DAMAGED}")
    elif not start.startswith(PICKLE):
        raise UnfitStateError(f"the file does not begin as one of torch; {DAMAGED}")
    file.seek(0)


@contextlib.contextmanager
def whole_zip(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Open a zip; where it is damaged, zipfile may seek to a place that there is none."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UnfitStateError(f"its parts lie outside the file; {DAMAGED}") from error


def check_parts(state: Any) -> None:
    """Refuse a checkpoint whose parts are of another kind than fairseq's."""
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not model or not all(map(torch.is_tensor, model.values())):
        raise UnfitStateError(f"it holds no parameters; {DAMAGED}")
    for name, kind in {"cfg": dict, "args": Namespace, "task_state": dict}.items():
        if not isinstance(state.get(name), kind | None):
            found = type(state[name]).__name__
            raise UnfitStateError(f"its '{name}' is of the type {found}; {DAMAGED}")


def check_tensors(tensors: Iterable[torch.Tensor], size: int) -> None:
    """Refuse tensors that would take far more memory than the file has bytes.

    A parameter that several modules share stands in the file once, but under several names.
    """
    total = 0
    for tensor in tensors:
        wanted = tensor.numel() * tensor.element_size()
        plain = tensor.layout is torch.strided and tensor.device.type == "cpu"
        stored = tensor.untyped_storage().nbytes() if plain else 0
        total += wanted
        if wanted > min(stored, size) or total > NAMES * size:
            raise UnfitStateError(
                f"a tensor of the shape {tuple(tensor.shape)} has more numbers than the file holds "
                f"for it; {DAMAGED}"
            )


def refuse_look_ups(values: Iterable[Any]) -> None:
    """Refuse a configuration that names what stands elsewhere; fairseq writes plain values."""
    for value in values:
        if isinstance(value, str) and LOOKED_UP in value:
            raise UnfitStateError(
                f"its configuration holds {value!r}, which would be looked up on this machine; "
                "fairseq writes no such thing, so do not trust the file"
            )


def leaves(value: Any) -> Iterator[Any]:
    """Yield all that stands in containers within each other, each container once."""
    seen, rest = set(), [value]
    while rest:
        value = rest.pop()
        inner = vars(value) if isinstance(value, Namespace) else value
        if not isinstance(inner, dict | list | tuple | set):
            yield value
        elif id(inner) not in seen:
            seen.add(id(inner))
            rest += [*inner, *inner.values()] if isinstance(inner, dict) else inner
