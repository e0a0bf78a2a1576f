"""Checkpoints appear under their names only when they are complete."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import torch
from fairseq.file_io import PathManager

from fairseq_posattn.io.atomic import replaced_whole


def whole_save(save):
    """checkpoint_utils.torch_persistent_save: the file takes its name when it is complete."""

    @functools.wraps(save)
    def save_whole(obj, filename, async_write=False):
        if async_write or PathManager.path_requires_pathmanager(filename):
            return save(obj, filename, async_write=async_write)
        write(obj, filename)

    return save_whole


def write(obj, path: str | Path) -> None:
    """torch.save to a file that appears when it is complete; an error of the disk is raised as
    such, where torch hides it behind one of its own."""
    with replaced_whole(os.fspath(path)) as partial:
        try:
            with open(partial, "wb") as file:
                torch.save(obj, file)
        except Exception as error:
            hidden = error_of_disk(error)
            if hidden is None:
                raise
            raise OSError(hidden.errno, hidden.strerror, str(path)) from None


def error_of_disk(error: BaseException | None) -> OSError | None:
    """The error of the disk that was raised before this one, if there was one."""
    while error is not None and not (isinstance(error, OSError) and error.errno):
        error = error.__context__
    return error


def whole_copy(copy):
    """PathManager.copy: a kill in between leaves the old file as it was."""

    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False):
        if any(map(PathManager.path_requires_pathmanager, (src_path, dst_path))):
            return copy(src_path, dst_path, overwrite=overwrite)
        with replaced_whole(dst_path) as partial:
            shutil.copyfile(src_path, partial)
        return True

    return copy_whole
