"""Unpack files from archives: .tar, compressed or not, and .zip."""

from __future__ import annotations

import errno
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole

CHUNK = 1 << 20
# Python raises NotImplementedError for an unknown compression, RuntimeError for a password.
TORN = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError),
)


def unpack(archive: str, folder: Path, names: Sequence[str]) -> None:
    """Write all files of an archive, or those of these names, below a folder; each appears when it
    is complete."""
    missing = set(names)
    with torn_archive_named(archive):
        for name, file in members(archive, names):
            missing.discard(name)
            out = folder / inside(archive, name)
            with replaced_whole(out) as partial, open(partial, "wb") as copy:
                shutil.copyfileobj(file, copy, CHUNK)
    if missing:
        raise InputError(
            f"{archive}: the archive has no {min(missing)}; it may be incomplete: get it again"
        )


@contextmanager
def torn_archive_named(archive: str) -> Iterator[None]:
    """Name the archive in an error of unpacking."""
    try:
        yield
    except InputError:
        raise
    except (*TORN, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # the disk has failed; a seek before the file's beginning is the archive's fault
        raise InputError(
            f"{archive}: the archive is incomplete or damaged ({str(error)[:80]}); get it again"
        ) from error


def members(archive: str, names: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield names and contents of the plain files in their order, without links and folders."""
    if zipfile.is_zipfile(archive) or archive.endswith(".zip"):
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir() and (not names or info.filename in names):
                    yield info.filename, opened.open(info)
    else:
        with tarfile.open(archive) as packed:
            for member in packed:
                file = packed.extractfile(member) if member.isfile() else None
                if file is not None and (not names or member.name in names):
                    yield member.name, file
            check_end(packed)


def check_end(archive: tarfile.TarFile) -> None:
    """Refuse an archive that was cut off between two files, which tarfile takes for a complete
    one."""
    if archive.fileobj.tell() == archive.offset:
        raise tarfile.ReadError("its end is missing")
    while archive.fileobj.read(CHUNK):  # the checksum stands at the very end
        pass


def inside(archive: str, name: str) -> PurePosixPath:
    """Return the path of a file below the folder that it is written to."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts:
        raise InputError(
            f"{archive}: {name[:60]!a} would be written outside its folder; get another archive"
        )
    return path
