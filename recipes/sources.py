"""Read the table of the files that a recipe downloads.

A line has the name of a file, its number of bytes (-: unknown), its sha256 (text:... is that of the
unpacked text) and its address, separated by tabs. Lines that begin with # are comments.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines

MOST_OF_UNKNOWN = 1 << 30  # the most bytes of a file whose size is not stated
SCHEMES = ("http", "https", "ftp")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
SIZE = re.compile(r"[1-9][0-9]{0,14}")
SHA256 = re.compile(r"(text:)?[0-9a-f]{64}")
ADDRESS = re.compile(r"[!-~]+")


class Source(NamedTuple):
    """Describes a file to download; its bytes are 0 if its size is not known."""

    name: str
    bytes: int
    sha256: str
    address: str

    @property
    def most(self) -> int:
        """Return how many bytes are written at most."""
        return self.bytes or MOST_OF_UNKNOWN


def sources(table: str) -> list[Source]:
    """Return the lines of a table, all checked before anything is downloaded."""
    found: list[Source] = []
    for number, line in enumerate(read_lines(table), start=1):
        if not line or line.startswith("#"):
            continue
        columns = line.split("\t")
        fault = fault_of(columns)
        if fault or columns[0] in {source.name for source in found}:
            raise InputError(f"{table}:{number}: {fault or 'this name stands above already'}")
        size = 0 if columns[1] == "-" else int(columns[1])
        found.append(Source(columns[0], size, *columns[2:]))
    if not found:
        raise InputError(f"{table}: the table names no file to fetch; get it again")
    return found


def fault_of(columns: list[str]) -> str | None:
    """Return what is wrong with a line of the table, or None."""
    if len(columns) != 4:
        return f"expected 4 columns, found {len(columns)}"
    name, size, sha256, address = columns
    if not NAME.fullmatch(name):
        return f"expected the name of a file, found {name[:40]!a}"
    if size != "-" and not SIZE.fullmatch(size):
        return f"expected a number of bytes, or -, found {size[:40]!a}"
    if not SHA256.fullmatch(sha256):
        return f"expected a sha256 of 64 digits from 0 to f, found {sha256[:40]!a}"
    if not is_address(address):
        return f"expected an address ({', '.join(SCHEMES)}), found {address[:40]!a}"
    return None


def is_address(text: str) -> bool:
    """Return whether a text is an address that can be downloaded."""
    try:
        parts = urlsplit(text)
        return bool(ADDRESS.fullmatch(text) and parts.scheme in SCHEMES and parts.hostname)
    except ValueError:
        return False
