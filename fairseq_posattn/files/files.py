"""Read and write plain or compressed text and JSON files, and reject malformed files.

Text is UTF-8. Lines end only at "\\n" or "\\r\\n", not at characters such as U+2028 or U+0085,
where Python's `splitlines` also splits.
"""

import codecs
import gzip
import hashlib
import io
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.paths import refuse_stream

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj


Mode = Literal["rb", "wb"]
Opener = Callable[[str | Path, Mode], Any]  # returns a BinaryIO, but gzip's type hints differ
XZ_PRESET = 3  # five times as fast as the default, 6; files are an eighth larger


class PackingError(ValueError):
    """Raised if a .zst file cannot be decompressed."""


PACKING_ERRORS = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, PackingError)


def open_to_read(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes; decompress it if its name ends in .gz, .xz or .zst."""
    opener = OPENERS.get(Path(path).suffix)
    return io.BufferedReader(opener(path, "rb")) if opener else open(path, "rb")


def open_to_write(path: str | Path) -> BinaryIO:
    """Open a file for writing bytes; compress them if its name ends in .gz, .xz or .zst."""
    if Path(path).suffix == ".xz":
        return cast(BinaryIO, lzma.open(path, "wb", preset=XZ_PRESET))
    opener: Opener = OPENERS.get(Path(path).suffix, open)
    file: BinaryIO = opener(path, "wb")
    return file


def open_zst(path: str | Path, mode: Mode) -> BinaryIO:
    """Open a .zst file for reading all of its frames, or for writing one frame with a checksum."""
    try:
        import zstandard
    except ImportError:
        raise InputError(
            f"{path}: the package zstandard is missing; run pip install 'fairseq_posattn[parse]'"
        ) from None
    if mode == "wb":
        compressor = zstandard.ZstdCompressor(level=9, write_checksum=True)
        file: BinaryIO = zstandard.open(path, "wb", compressor)
        return file
    return cast(BinaryIO, ZstReader(zstandard, path))


class ZstReader(io.RawIOBase):
    """Decompresses all frames of a file; raises EOFError if the last frame is truncated."""

    def __init__(self, zstandard: ModuleType, path: str | Path):
        self.zstandard, self.file = zstandard, open(path, "rb")  # noqa: SIM115
        self.frame: ZstdDecompressionObj | None = None
        self.packed, self.unpacked = b"", b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # a BufferedReader passes a memoryview
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
            frame: ZstdDecompressionObj = self.zstandard.ZstdDecompressor().decompressobj()
            self.frame = frame
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


OPENERS: dict[str, Opener] = {".gz": gzip.open, ".xz": lzma.open, ".zst": open_zst}


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file, without their line ends."""
    number = 0
    try:
        with open_to_read(path) as file:
            for number, line in enumerate(decoded(file, path), start=1):  # noqa: B007
                yield line
    except PACKING_ERRORS as error:
        raise InputError(
            f"{path}:{number + 1}: the file cannot be decompressed ({error}) because it is "
            "truncated or corrupted; download or create it again"
        ) from error


def decoded(lines: Iterable[bytes], name: str | Path) -> Iterator[str]:
    """Decode lines from UTF-8; strip their line ends and the byte order mark of the first line.

    name: the file name for error messages.
    """
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            yield line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name}:{number}: the line is not UTF-8 ({error.reason}); convert the file, for "
            "example with iconv"
        ) from error


def read_json(path: str | Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object that this package wrote; error messages end with `remedy`."""
    document = read_json_value(path, remedy)
    if not isinstance(document, dict):
        raise InputError(f"{path}: the file is damaged (not a JSON object); {remedy}")
    return document


def read_json_value(path: str | Path, remedy: str) -> Any:
    """Read a JSON value of any type; error messages end with `remedy`."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: the file is damaged ({error}); {remedy}") from error


def count_lines(path: str | Path) -> int:
    """Return the number of lines that `read_lines` yields; the last line may lack a newline."""
    refuse_stream(path)
    count, last = 0, b"\n"
    try:
        with open_to_read(path) as file:
            while chunk := file.read(1 << 20):
                count += chunk.count(b"\n")
                last = chunk[-1:]
    except PACKING_ERRORS as error:
        raise InputError(
            f"{path}: the file cannot be decompressed ({error}) because it is truncated or "
            "corrupted; download or create it again"
        ) from error
    return count + (last != b"\n")


def same_number_of_lines(paths: Sequence[str | Path]) -> int:
    """Return the number of lines of parallel files; raise an InputError if lengths differ."""
    counts = {str(path): count_lines(path) for path in paths}
    refuse_different_lengths(counts)
    return next(iter(counts.values()))


def refuse_different_lengths(counts: Mapping[str, int]) -> None:
    """Raise an InputError if files differ in length.

    counts: the number of lines by file name.
    """
    (first, lines), *others = counts.items()
    for other, found in others:
        if found != lines:
            raise InputError(
                f"{first} has {lines:,} lines, but {other} has {found:,}; create both from the "
                "same sentences"
            )


def write_json(path: str | Path, value: object, **options: Any) -> None:
    """Write a value to a JSON file atomically; `options` are passed to json.dump."""
    with written_whole(path) as file:
        json.dump(value, file, **options)
        file.write("\n")


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 checksum of a file in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def fingerprint(path: str | Path) -> dict[str, Any]:
    """Return the size in bytes and the SHA-256 checksum of a file; raise an error for a pipe."""
    refuse_stream(path)
    return {"bytes": os.path.getsize(path), "sha256": sha256(path)}
