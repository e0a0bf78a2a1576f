"""Reject, at the start of a program, paths that would cause an error later.

fairseq splits an argument with several paths at `:` or `,`, which may also occur within a path.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

from fairseq_posattn.errors import InputError


def is_stream(path: Path) -> bool:
    """Return whether the path is a pipe, a socket or a device, such as /dev/stdout."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


def refuse_unwritable(target: Path) -> None:
    """Raise an error if the path is a folder or a file without write permission."""
    if target.is_dir():
        raise InputError(f"{target}: the output is a folder; give the path of a file")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))


def refuse_file(folder: Path) -> None:
    """Raise an error if a path exists but is not a folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"{folder}: this is not a folder; give the path of a new or existing folder"
        )


def refuse_to_delete(folder: str | Path, marker: str, content: str) -> None:
    """Raise an error if --overwrite would delete a folder that lacks the file `marker`."""
    path = Path(folder)
    if path.exists() and any(path.iterdir()) and not (path / marker).exists():
        raise InputError(
            f"{folder}: the folder contains no {marker}, so it is not a folder of {content}, and "
            "--overwrite does not delete it; delete the folder yourself"
        )


def refuse_stream(path: str | Path) -> None:
    """Raise an error if an input that is read several times is a pipe or device."""
    if is_stream(Path(path)):
        raise InputError(
            f"{path}: this is a pipe or a device, but the program reads its input several times; "
            "write it to a file first"
        )


def refuse_twice(paths: Sequence[str | Path]) -> None:
    """Raise an error if two output paths refer to the same file."""
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen and not is_stream(Path(path)):
            raise InputError(f"{path}: two outputs have the same path; choose different files")
        seen.add(real)


def refuse_redirected(path: str | Path) -> None:
    """Raise an error for paths such as /dev/stdout if the shell redirects them to a file.

    An atomic write would replace that file, and lose what other programs wrote to it.
    """
    of_shell = str(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    if of_shell and not is_stream(Path(path)):
        real = os.path.realpath(path)
        raise InputError(f"{path}: the shell redirects it to {real}; pass that file, or use a pipe")


def refuse_split_path(
    paths: str, separator: str, exists: Callable[[str], bool] = os.path.exists
) -> None:
    """Raise an error if an existing path in a list of paths contains fairseq's separator."""
    parts = paths.split(separator)
    if all(map(exists, parts)):
        return
    for start, end in combinations(range(len(parts) + 1), 2):
        path = separator.join(parts[start:end])
        if end - start > 1 and exists(path):
            raise InputError(
                f"{path}: fairseq would split this path at '{separator}'; rename the folder or "
                "file, or use a symbolic link"
            )


def refuse_separator(option: str, path: str | os.PathLike[str], separator: str) -> None:
    """Raise an error if the path of a new folder contains fairseq's separator."""
    if separator in str(path):
        raise InputError(
            f"{option} {path}: fairseq splits such paths at '{separator}'; use a path without "
            f"'{separator}'"
        )
