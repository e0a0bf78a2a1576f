"""Checkpoints that are safe to load, never torn, and not written by two trainings at once.

fairseq offers no hook for any of the three, so `install` puts three small functions in the place
of its own.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import logging
import os
import pickle
import shutil
import warnings
import zipfile
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

logger = logging.getLogger(__name__)

# what fairseq's checkpoints hold beside tensors and plain data
SAFE_CLASSES = [argparse.Namespace]
locks: dict[str, object] = {}  # held until the process ends


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be loaded, or must not be written."""


def install() -> None:
    """Replace fairseq's functions, once."""
    register_safe_classes()
    if getattr(checkpoint_utils, "posattn_installed", False):
        return
    checkpoint_utils.posattn_installed = True
    PathManager.copy = staticmethod(whole_copy(PathManager.copy))
    checkpoint_utils.load_checkpoint_to_cpu = whole_and_safe(checkpoint_utils.load_checkpoint_to_cpu)
    checkpoint_utils.verify_checkpoint_directory = locked(
        checkpoint_utils.verify_checkpoint_directory
    )


def register_safe_classes() -> None:
    """torch.load from 2.6 on refuses all classes but these and plain data; older torch runs code."""
    if not hasattr(torch.serialization, "add_safe_globals") or not loads_weights_only():
        warnings.warn(
            f"torch {torch.__version__} loads checkpoints without a check of their classes: load "
            "only files that you trust, or use torch 2.6 or later",
            stacklevel=2,
        )
        return
    torch.serialization.add_safe_globals(SAFE_CLASSES)


def loads_weights_only() -> bool:
    """Whether torch.load checks classes unless told otherwise: from 2.6 on."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 6)


def whole_copy(copy):
    """Copy to a temporary name and rename: a kill in between leaves the old file as it was."""

    @functools.wraps(copy)
    def atomic(src_path: str, dst_path: str, overwrite: bool = False):
        if PathManager.path_requires_pathmanager(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        temporary = f"{dst_path}.tmp"
        shutil.copyfile(src_path, temporary)
        os.replace(temporary, dst_path)
        return True

    return atomic


def whole_and_safe(load):
    """Load; fall back from a torn checkpoint_last.pt; explain why an unsafe file is refused."""

    @functools.wraps(load)
    def load_whole(path, *args, **kwargs):
        path = newest_whole(path)
        try:
            return load(path, *args, **kwargs)
        except pickle.UnpicklingError as error:
            raise CheckpointError(explain_refusal(path, error)) from None

    return load_whole


def newest_whole(path: str) -> str:
    """The file itself if it is whole, or of another kind; for a torn last one, its predecessor."""
    file = Path(path)
    if not file.is_file() or not is_torn(file):
        return path
    others = [f for f in file.parent.glob("checkpoint*.pt") if f != file and not is_torn(f)]
    if not file.name.startswith("checkpoint_last") or not others:
        raise CheckpointError(
            f"{path} is torn (a copy or a disk that broke off) and cannot be loaded; "
            "remove it, or name another checkpoint with --restore-file"
        )
    newest = max(others, key=lambda f: f.stat().st_mtime)
    logger.warning("%s is torn (its writing was broken off): going on from %s", path, newest)
    return str(newest)


def is_torn(file: Path) -> bool:
    """A checkpoint is a zip file, whose directory stands at its end."""
    with open(file, "rb") as start:
        magic = start.read(4)
    zipped = magic == b"PK\x03\x04" or len(magic) < 4
    return zipped and not zipfile.is_zipfile(file)


def explain_refusal(path: str, error: Exception) -> str:
    reason = str(error).split("Unsupported global: GLOBAL ")
    what = reason[1].split()[0] if len(reason) > 1 else "an object that is not plain data"
    return (
        f"{path} is refused: it holds {what}, and loading anything but tensors and plain data "
        "could run code that somebody hid in the file. If you made the file and trust that class, "
        "allow it before loading: torch.serialization.add_safe_globals([...])"
    )


def locked(verify):
    """Refuse a second training in the same directory. The lock goes with the process, however it
    ends; its file stays. A record lock, which forked data loaders do not inherit."""

    @functools.wraps(verify)
    def verify_and_lock(save_dir: str) -> None:
        verify(save_dir)
        take_lock(save_dir)

    return verify_and_lock


def take_lock(save_dir: str) -> None:
    path = os.path.realpath(os.path.join(save_dir, ".training.lock"))
    if path in locks:
        return
    file = open(path, "a+")  # noqa: SIM115
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise CheckpointError(
            f"another training is writing to {save_dir}. Two separate ones would overwrite each "
            "other's checkpoints: choose another --save-dir. If the two were meant as one "
            "(torchrun, srun), give each of them --distributed-world-size N, and on CPU also "
            "--distributed-rank R --distributed-init-method tcp://HOST:PORT"
        ) from None
    locks[path] = file
