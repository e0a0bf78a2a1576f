"""Files and folders that appear under their names only when they are complete.

Each grows beside its place under a name of its own, `.RANDOM.partial.NAME`, and is renamed at the
end, so two runs with one output never write into the same file. The writer holds a lock on the
growing file for as long as it lives. The next run with the same output removes those that nobody
holds any more: a killed run left them behind.
"""

from __future__ import annotations

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
from fairseq_posattn.io.lock import is_still, lock_if_possible, locked, try_lock
from fairseq_posattn.io.paths import (
    is_stream,
    refuse_file,
    refuse_redirected,
    refuse_twice,
    refuse_unwritable,
)

PARTIAL = ".partial."
RANDOM_BYTES = 6
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def written_whole(path: str | Path) -> Iterator[TextIO]:
    """Open a text file for writing; it appears under its name only when the block ends well."""
    with written_together([path]) as (file,):
        yield file


@contextlib.contextmanager
def written_together(paths: Sequence[str | Path]) -> Iterator[list[TextIO]]:
    """Open several text files like `written_whole`; none appears before all are complete.

    Several files that belong together are locked, or two runs could leave one file of each.
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
    """Give a path to write a file of any kind to; it takes the name when the block ends well.

    The file at that path exists and is empty. Write into it; do not put another file in its place.
    """
    with replaced_together([path]) as (partial,):
        yield partial


@contextlib.contextmanager
def replaced_together(paths: Sequence[str | Path]) -> Iterator[list[Path]]:
    """Like `replaced_whole` for several files: none takes its name before all are complete."""
    files: list[_Growing] = []
    try:
        for path in paths:
            files.append(_Growing(path))
        with full_disk_named(files[0].target.parent):
            yield [file.path for file in files]
            for file in files:
                file.sync()
        for file in files:
            file.take_its_name()
    finally:
        for file in files:
            file.discard()


class _Growing:
    """One file that grows beside its place. A pipe or a device is written to directly."""

    def __init__(self, path: str | Path):
        refuse_redirected(path)
        self.target = Path(path)
        self.held: int | None = None
        if is_stream(self.target):
            self.path = self.target
            return
        self.target = Path(os.path.realpath(path))  # a link stays a link
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
        with contextlib.suppress(FileNotFoundError):  # the permissions of the file it replaces
            os.chmod(self.path, stat.S_IMODE(self.target.stat().st_mode))
        os.replace(self.path, self.target)

    def discard(self) -> None:
        """Remove the file unless it has its name by now, and release its lock."""
        if self.held is None:
            return
        if is_still(self.path, self.held):
            self.path.unlink(missing_ok=True)
        os.close(self.held)
        self.held = None


def new_file(target: Path) -> tuple[Path, int]:
    """Make an empty file beside the target, open and locked, with the permissions of `open`."""
    while True:
        path = temp_name(target)
        file = os.open(path, NEW_FILE, 0o666)  # refuses a name that is there, a link too
        if lock_if_possible(file) and is_still(path, file):
            return path, file
        os.close(file)  # another run took it for a leftover: its name came before its lock


def new_folder(target: Path) -> Path:
    """Make an empty folder beside the target."""
    path = temp_name(target)
    path.mkdir(parents=True)
    return path


def temp_name(target: Path) -> Path:
    """A name beside the target that nobody else has, with the ending of the target's name."""
    return target.with_name(f".{secrets.token_hex(RANDOM_BYTES)}{name_end(target)}")


def name_end(target: Path) -> str:
    """What the names of all that grows for this target end in; disks take 255 bytes."""
    name = target.name if len(os.fsencode(target.name)) <= 220 else target.name[-50:]
    return f"{PARTIAL}{name}"


def leftovers(target: Path) -> list[Path]:
    """What is growing, or was left behind, beside the target."""
    name = re.compile(rf"\.[0-9a-f]{{{2 * RANDOM_BYTES}}}{re.escape(name_end(target))}")
    with contextlib.suppress(FileNotFoundError), os.scandir(target.parent) as entries:
        return [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    return []


def remove_leftovers(target: Path) -> None:
    """Remove the files of runs that were killed: those on which nobody holds the lock."""
    for path in leftovers(target):
        with contextlib.suppress(OSError):  # gone meanwhile, or not ours to remove
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if try_lock(file) and is_still(path, file):
                    path.unlink()
            finally:
                os.close(file)


@contextlib.contextmanager
def full_disk_named(folder: Path) -> Iterator[None]:
    """Add the folder to the error of a full disk, which Python reports without a name."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and not error.filename:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise


@contextlib.contextmanager
def folder_written_whole(
    folder: str | Path, replace: bool = False, lock: bool = True
) -> Iterator[Path]:
    """Give a folder to fill; it appears under its name only when the block ends well.

    With `replace` a folder of that name gives way, at the very end. Two runs that make the same
    folder make no sense, so the second one is refused, unless the caller holds another lock that
    keeps it away (`lock=False`).
    """
    target = Path(os.path.realpath(folder))
    refuse_file(target)
    with locked(target) if lock else contextlib.nullcontext():
        put_back(target)
        if is_used(target) and not replace:
            raise InputError(
                f"{folder}: exists already; name another folder, or replace this one "
                "with --overwrite"
            )
        for left in leftovers(target):
            shutil.rmtree(left, ignore_errors=True)
        partial = new_folder(target)
        try:
            with full_disk_named(target.parent):
                yield partial
            _take_the_place(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def is_used(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def put_back(target: Path) -> None:
    """Give the old folder its name back, if a kill fell between the two renames at the end."""
    replaced = replaced_name(target)
    if replaced.exists() and not target.exists():
        os.rename(replaced, target)
    shutil.rmtree(replaced, ignore_errors=True)


def _take_the_place(partial: Path, target: Path) -> None:
    replaced = replaced_name(target)
    if target.exists():
        os.rename(target, replaced)
    os.rename(partial, target)
    shutil.rmtree(replaced, ignore_errors=True)


def replaced_name(target: Path) -> Path:
    """Where the old folder stands while the new one takes its name."""
    return target.with_name(f".replaced.{target.name}")
