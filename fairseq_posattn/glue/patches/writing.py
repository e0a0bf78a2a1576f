"""Write checkpoints so that they appear under their names only when they are complete."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path

import torch
from fairseq.file_io import PathManager

from fairseq_posattn.io.atomic import replaced_whole


def whole_save(save):
    """Wrap checkpoint_utils.torch_persistent_save: the file gets its name when it is complete."""

    @functools.wraps(save)
    def save_whole(obj, filename, async_write=False):
        if async_write or PathManager.path_requires_pathmanager(filename):
            return save(obj, filename, async_write=async_write)
        write(obj, filename)

    return save_whole


def write(obj, path: str | Path) -> None:
    """Save an object with torch to a file that appears when it is complete.

    torch hides an error of the disk behind one of its own; here the error of the disk is raised.
    """
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
    """Return the error of the disk that was raised before this one, or None."""
    while error is not None and not (isinstance(error, OSError) and error.errno):
        error = error.__context__
    return error


def whole_copy(copy):
    """Wrap PathManager.copy: if it is killed, the old file stays as it was."""

    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False):
        if any(map(PathManager.path_requires_pathmanager, (src_path, dst_path))):
            return copy(src_path, dst_path, overwrite=overwrite)
        with replaced_whole(dst_path) as partial:
            shutil.copyfile(src_path, partial)
        return True

    return copy_whole
