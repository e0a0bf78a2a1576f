"""Write files and folders atomically: they appear under their names only when complete.

Data is written to a temporary file `.RANDOM.partial.NAME` in the target's folder and renamed at the
end, so two runs with the same output never write to the same file. The temporary file is locked
while it is being written. The next run with the same output removes unlocked temporary files, which
are leftovers of killed runs.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.lock import is_still, lock_if_possible, locked, try_lock
from fairseq_posattn.files.paths import (
    is_stream,
    refuse_file,
    refuse_redirected,
    refuse_twice,
    refuse_unwritable,
)

PARTIAL = ".partial."
RANDOM_BYTES = 6
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def written_whole(path: str | Path) -> Iterator[TextIO]:
    """Write a text file atomically: it replaces `path` only if the block ends without an error.

    with written_whole("scores.txt") as file:
        file.write("27.3\\n")
    """
    with written_together([path]) as (file,):
        yield file


@contextlib.contextmanager
def written_together(paths: Sequence[str | Path]) -> Iterator[list[TextIO]]:
    """Write several text files atomically; rename them to `paths` after all are complete.

    A lock prevents a mixture of files from two concurrent runs.
    """
    refuse_twice(paths)
    with contextlib.ExitStack() as stack:
        files = [path for path in paths if not is_stream(Path(path))]
        if len(files) > 1:
            stack.enter_context(locked(files[0]))
        partials = stack.enter_context(replaced_together(paths))
        with contextlib.ExitStack() as opened:
            yield [
                opened.enter_context(open(partial, "w", encoding="utf-8", newline="\n"))
                for partial in partials
            ]


@contextlib.contextmanager
def replaced_whole(path: str | Path) -> Iterator[Path]:
    """Yield the path of an empty temporary file that replaces `path` if the block succeeds.

    The caller must write to this temporary file and must not replace it with another file.
    """
    with replaced_together([path]) as (partial,):
        yield partial


@contextlib.contextmanager
def replaced_together(paths: Sequence[str | Path]) -> Iterator[list[Path]]:
    """Yield the paths of temporary files, which replace `paths` after all are complete."""
    files: list[_PartialFile] = []
    try:
        for path in paths:
            files.append(_PartialFile(path))
        with full_disk_named(", ".join(str(file.target) for file in files)):
            yield [file.path for file in files]
            for file in files:
                file.sync()
        for file in files:
            file.take_its_name()
    finally:
        for file in files:
            file.discard()


class _PartialFile:
    """A temporary file in the folder of its target.

    If the target is a pipe or a device, no temporary file is used.
    """

    def __init__(self, path: str | Path):
        refuse_redirected(path)
        self.target = Path(path)
        self.held: int | None = None
        if is_stream(self.target):
            self.path = self.target
            return
        self.target = Path(os.path.realpath(path))  # keep a symbolic link, and replace its target
        refuse_unwritable(self.target)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.target)
        self.path, self.held = new_file(self.target)

    def sync(self) -> None:
        if self.held is not None:
            os.fsync(self.held)

    def take_its_name(self) -> None:
        if self.held is None:
            return
        with contextlib.suppress(FileNotFoundError):  # keep the permissions of the old file
            os.chmod(self.path, stat.S_IMODE(self.target.stat().st_mode))
        os.replace(self.path, self.target)

    def discard(self) -> None:
        """Remove the file unless it has been renamed, and release its lock."""
        if self.held is None:
            return
        if is_still(self.path, self.held):
            self.path.unlink(missing_ok=True)
        os.close(self.held)
        self.held = None


def new_file(target: Path) -> tuple[Path, int]:
    """Create, open and lock an empty temporary file in the folder of the target."""
    while True:
        path = temp_name(target)
        file = os.open(path, NEW_FILE, 0o666)  # fails if the name exists, even as a link
        if lock_if_possible(file) and is_still(path, file):
            return path, file
        os.close(file)  # another run took it for a leftover before it was locked


def new_folder(target: Path) -> Path:
    path = temp_name(target)
    path.mkdir(parents=True)
    return path


def temp_name(target: Path) -> Path:
    """Return an unused temporary path in the target's folder, ending in the target's name."""
    return target.with_name(f".{secrets.token_hex(RANDOM_BYTES)}{name_end(target)}")


def name_end(target: Path) -> str:
    """Return the suffix of the target's temporary names; file names are limited to 255 bytes."""
    name = target.name if len(os.fsencode(target.name)) <= 220 else target.name[-50:]
    return f"{PARTIAL}{name}"


def leftovers(target: Path) -> list[Path]:
    """List the temporary files and folders of a target, including those in use."""
    name = re.compile(rf"\.[0-9a-f]{{{2 * RANDOM_BYTES}}}{re.escape(name_end(target))}")
    with contextlib.suppress(FileNotFoundError), os.scandir(target.parent) as entries:
        return [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    return []


def remove_leftovers(target: Path) -> None:
    """Remove the unlocked temporary files of a target, which killed runs left behind."""
    for path in leftovers(target):
        with contextlib.suppress(OSError):  # removed meanwhile, or owned by another user
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if try_lock(file) and is_still(path, file):
                    path.unlink()
            finally:
                os.close(file)


@contextlib.contextmanager
def full_disk_named(path: str | Path) -> Iterator[None]:
    """Add the path to a disk-full error, which Python raises without a file name."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM and not error.filename:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def folder_written_whole(
    folder: str | Path, replace: bool = False, lock: bool = True
) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` if the block ends without an error.

    With `replace`, an existing folder is replaced at the very end. Otherwise, an existing folder
    must be empty. If another run is creating the same folder, an error is raised; pass `lock=False`
    if the caller already prevents this with its own lock.
    """
    target = Path(os.path.realpath(folder))
    refuse_file(target)
    with locked(target) if lock else contextlib.nullcontext():
        put_back(target)
        if is_used(target) and not replace:
            raise InputError(
                f"{folder}: the folder already exists; choose another folder, or delete this one "
                "(or use --overwrite, if the command supports it)"
            )
        for left in leftovers(target):
            shutil.rmtree(left, ignore_errors=True)
        partial = new_folder(target)
        try:
            with full_disk_named(target):
                yield partial
            _swap_in(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def is_used(path: Path) -> bool:
    """Return whether the path exists and is not an empty folder."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def put_back(target: Path) -> None:
    """Restore the old folder if a run was killed between the two renames of `_swap_in`."""
    replaced = replaced_name(target)
    if replaced.exists() and not target.exists():
        os.rename(replaced, target)
    shutil.rmtree(replaced, ignore_errors=True)


def _swap_in(partial: Path, target: Path) -> None:
    """Rename the old folder, if there is one, and then rename the new folder to the target."""
    replaced = replaced_name(target)
    if target.exists():
        os.rename(target, replaced)
    os.rename(partial, target)
    shutil.rmtree(replaced, ignore_errors=True)


def replaced_name(target: Path) -> Path:
    """Return the name that the old folder has while the new folder is being renamed."""
    return target.with_name(f".replaced.{target.name}")
