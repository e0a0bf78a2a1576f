"""Describe a file that a recipe downloads, and refuse what is none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from fairseq_posattn.io.records import limit
from fairseq_posattn.lab.experiments.allowed import plain

MOST_OF_UNKNOWN = 1 << 30  # the most bytes of a file whose size is not stated
SCHEMES = ("http", "https", "ftp")
SHA256 = re.compile(r"(text:)?[0-9a-f]{64}")
ADDRESS = re.compile(r"[!-~]+")
MOST = 10**15


def is_address(text: str) -> bool:
    """Return whether a text is an address that can be downloaded."""
    try:
        parts = urlsplit(text)
        return bool(ADDRESS.fullmatch(text) and parts.scheme in SCHEMES and parts.hostname)
    except ValueError:
        return False


@dataclass(frozen=True)
class Source:
    """This describes a file to download.

    bytes: its size; 0 if that is not known.
    sha256: its checksum; text:... is that of the unpacked text.
    """

    name: str = field(metadata=plain())
    address: str = field(metadata=limit(is_address, f"an address ({', '.join(SCHEMES)})"))
    sha256: str = field(
        metadata=limit(
            lambda text: bool(SHA256.fullmatch(text)), "a sha256 of 64 digits from 0 to f"
        )
    )
    bytes: int = field(
        default=0, metadata=limit(lambda size: 0 <= size < MOST, "a number of bytes")
    )

    @property
    def most(self) -> int:
        """Return how many bytes are written at most."""
        return self.bytes or MOST_OF_UNKNOWN
