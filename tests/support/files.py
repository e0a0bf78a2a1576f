"""These functions write and read small files of tests."""

import re
from collections.abc import Iterable
from pathlib import Path


def write(path: Path, content: str | bytes | Iterable[str]) -> Path:
    """Write a text, bytes, or lines, each of which gets its end, and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8", newline="")
    else:
        write(path, "".join(f"{line}\n" for line in content))
    return path


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text; unlike splitlines, U+2028 and others do not end one."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def names(folder: Path) -> list[str]:
    """Return the names of all that a folder has, in their order."""
    return sorted(path.name for path in folder.iterdir())


def with_unknown_compression(data: bytes) -> bytes:
    """Return a ZIP whose files say that they are compressed by a method that nobody knows."""
    found = bytearray(data)
    for start in (match.start() for match in re.finditer(rb"PK\x01\x02", data)):
        found[start + 10 : start + 12] = b"\x77\x00"
    for start in (match.start() for match in re.finditer(rb"PK\x03\x04", data)):
        found[start + 8 : start + 10] = b"\x77\x00"
    return bytes(found)
