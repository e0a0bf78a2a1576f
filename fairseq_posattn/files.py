"""Files that are read strictly and written whole, or not at all.

Text is UTF-8 and its lines end at "\\n" (or "\\r\\n") only: characters such as U+2028 or U+0085,
which Python's `splitlines` takes for line ends too, stay inside their line.
"""

import codecs
import contextlib
import errno
import gzip
import io
import json
import lzma
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

PARTIAL = ".partial"
XZ_PRESET = 3  # five times as fast as the usual 6, an eighth larger


class InputError(ValueError):
    """An input that cannot be right: says what was found, where, and what to do about it."""


class PackingError(ValueError):
    """A .zst file that cannot be unpacked."""


PACKING_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, PackingError)


def open_to_read(path: str | Path) -> BinaryIO:
    """The bytes of a file, unpacked if its name ends in .gz, .xz or .zst."""
    opener = OPENERS.get(Path(path).suffix)
    return io.BufferedReader(opener(path, "rb")) if opener else open(path, "rb")


def open_to_write(path: str | Path) -> BinaryIO:
    """A file to write, packed if its name ends in .xz or .zst."""
    if Path(path).suffix == ".xz":
        return lzma.open(path, "wb", preset=XZ_PRESET)
    return OPENERS.get(Path(path).suffix, open)(path, "wb")


def open_zst(path: str | Path, mode: str) -> BinaryIO:
    """A file of one or several zstandard frames; one written anew has its checksum."""
    zstandard = import_zstandard(path)
    if mode == "wb":
        return zstandard.open(path, "wb", zstandard.ZstdCompressor(level=9, write_checksum=True))
    return ZstReader(zstandard, path)


def import_zstandard(path: str | Path):
    try:
        import zstandard
    except ImportError:
        raise InputError(
            f"{path}: .zst takes the package zstandard: pip install 'fairseq_posattn[parse]'"
        ) from None
    return zstandard


class ZstReader(io.RawIOBase):
    """Unpacks all frames of a file, and tells a torn one from one that ends."""

    def __init__(self, zstandard, path: str | Path):
        self.zstandard, self.file = zstandard, open(path, "rb")  # noqa: SIM115
        self.frame, self.packed, self.unpacked = None, b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self.unpacked and self._feed():
            self._unpack()
        count = min(len(buffer), len(self.unpacked))
        buffer[:count] = self.unpacked[:count]
        self.unpacked = self.unpacked[count:]
        return count

    def _feed(self) -> bool:
        self.packed = self.packed or self.file.read(1 << 16)
        if not self.packed and self.frame is not None:
            raise EOFError("the file ends within a frame")
        return bool(self.packed)

    def _unpack(self) -> None:
        if self.frame is None:
            self.frame = self.zstandard.ZstdDecompressor().decompressobj()
        try:
            self.unpacked = self.frame.decompress(self.packed)
        except self.zstandard.ZstdError as error:
            raise PackingError(str(error)) from error
        self.packed = self.frame.unused_data if self.frame.eof else b""
        if self.frame.eof:
            self.frame = None

    def close(self) -> None:
        self.file.close()
        super().close()


OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".zst": open_zst}


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file one after the other, without their line ends."""
    number = 0
    try:
        with open_to_read(path) as file:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}:{number}: not UTF-8 ({error.reason}); convert the file, with iconv for example"
        ) from error
    except PACKING_ERRORS as error:
        raise InputError(
            f"{path}:{number + 1}: cannot be unpacked ({error}); the file is cut off or damaged"
        ) from error


def read_json(path: str | Path, remedy: str) -> dict:
    """What one of our programs wrote."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}); {remedy}") from error


def count_lines(path: str | Path) -> int:
    """How many lines `read_lines` gives; a last line without its line end counts."""
    count, last = 0, b"\n"
    try:
        with open_to_read(path) as file:
            while chunk := file.read(1 << 20):
                count += chunk.count(b"\n")
                last = chunk[-1:]
    except PACKING_ERRORS as error:
        raise InputError(
            f"{path}: cannot be unpacked ({error}); the file is cut off or damaged"
        ) from error
    return count + (last != b"\n")


def same_number_of_lines(paths: Sequence[str | Path]) -> int:
    """The number of lines that all these files have, or an error if they differ."""
    counts = {str(path): count_lines(path) for path in paths}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{path} has {count}" for path, count in counts.items())
        raise InputError(
            f"the files differ in their number of lines: {listed}; "
            "make them from the same sentences"
        )
    return next(iter(counts.values()))


@contextlib.contextmanager
def written_whole(path: str | Path) -> Iterator[TextIO]:
    """A text file to write; it appears under its name only when the block has ended well."""
    with written_together([path]) as (file,):
        yield file


@contextlib.contextmanager
def written_together(paths: Sequence[str | Path]) -> Iterator[list[TextIO]]:
    """Like `written_whole` for several files: none of them appears before all are complete."""
    targets = [Path(os.path.realpath(path)) for path in paths]
    partials = [partial_name(target) for target in targets]
    try:
        with full_disk_named(targets[0].parent), contextlib.ExitStack() as stack:
            yield [stack.enter_context(_synced(partial)) for partial in partials]
        for partial, target in zip(partials, targets, strict=True):
            os.replace(partial, target)
    except BaseException:
        for partial in partials:
            partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replaced_whole(path: str | Path) -> Iterator[Path]:
    """A path to write a file of any kind to; it takes the name only when the block ended well."""
    target = Path(os.path.realpath(path))
    partial = partial_name(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with full_disk_named(target.parent):
            yield partial
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def partial_name(path: Path) -> Path:
    """Where a file or folder grows: beside its place, so that it can be renamed when complete."""
    return path.with_name(path.name + PARTIAL)


@contextlib.contextmanager
def _synced(path: Path) -> Iterator[TextIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def full_disk_named(folder: Path) -> Iterator[None]:
    """Python reports a full disk without saying where: add the folder."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and not error.filename:
            raise OSError(error.errno, error.strerror, str(folder)) from error
        raise


@contextlib.contextmanager
def folder_written_whole(folder: str | Path, replace: bool = False) -> Iterator[Path]:
    """A folder to fill; it appears under its name only when the block has ended well.

    With `replace` a folder of that name gives way, at the very end.
    """
    target = Path(os.path.realpath(folder))
    if _is_used(target) and not replace:
        raise InputError(
            f"{folder}: exists already; name another folder, or replace this one with --overwrite"
        )
    partial = partial_name(target)
    shutil.rmtree(partial, ignore_errors=True)  # left over from a killed run
    partial.mkdir(parents=True)
    try:
        with full_disk_named(target.parent):
            yield partial
        _take_the_place(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _is_used(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _take_the_place(partial: Path, target: Path) -> None:
    replaced = Path(f"{target}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if target.exists():
        os.rename(target, replaced)
    os.rename(partial, target)
    shutil.rmtree(replaced, ignore_errors=True)
