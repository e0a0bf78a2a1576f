"""Download the files of a corpus.

A file is given its final name only after the download is complete and its checksum has been
verified. A download never writes more bytes than the recipe specifies (or 1 GiB if it specifies no
size), regardless of what the server sends.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import plain
from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.files.files import PACKING_ERRORS
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import limit
from fairseq_posattn.files.terminal import say

CHUNK = 1 << 20
PATIENCE = 60  # seconds to wait for an answer
ELSEWHERE = "get {} from another source, and give its folder with --from FOLDER"
NETWORK_ERRORS = (OSError, EOFError, HTTPException, ValueError)
MOST_OF_UNKNOWN = 1 << 30  # maximum number of bytes if the recipe specifies no size
SCHEMES = ("http", "https", "ftp")
SHA256 = re.compile(r"(text:)?[0-9a-f]{64}")
ADDRESS = re.compile(r"[!-~]+")
MOST = 10**15


def is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(ADDRESS.fullmatch(text) and parts.scheme in SCHEMES and parts.hostname)
    except ValueError:
        return False


@dataclass(frozen=True)
class Source:
    """A file to download.

    bytes: size of the file, or 0 if it is unknown.
    sha256: SHA-256 checksum of the file or, with the prefix `text:`, of its decompressed content.
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


def fetch(folder: Path, sources: Sequence[Source]) -> None:
    """Download the files that are missing from a folder.

    Raises InputError if a download fails or if a file has an unexpected size or checksum.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        path = folder / source.name
        if path.exists():
            continue
        if path.is_symlink():
            raise InputError(f"{path}: the symbolic link is broken; delete it")
        with locked(path), replaced_whole(path) as partial:
            say(f"downloading {source.address} ({source.bytes:,} bytes)")
            with open(partial, "wb") as file:
                for chunk in chunks(source):
                    file.write(chunk)
            check(source, partial)


def chunks(source: Source) -> Iterator[bytes]:
    """Yield the content of a file; raise an InputError as soon as it exceeds the size limit."""
    room = source.bytes or MOST_OF_UNKNOWN
    try:
        with urllib.request.urlopen(source.address, timeout=PATIENCE) as answer:
            while (chunk := answer.read1(CHUNK)) and len(chunk) <= room:
                room -= len(chunk)
                yield chunk
    except NETWORK_ERRORS as error:
        is_answer = isinstance(error, urllib.error.HTTPError)  # its text contains the status code
        reason = error if is_answer else getattr(error, "reason", error)
        what = " ".join(str(reason).split()) or repr(error)
        raise InputError(
            f"{source.address}: the file cannot be downloaded ({what[:80]!a}); without network "
            f"access, {ELSEWHERE.format(source.name)}"
        ) from error
    if chunk:
        stated = "the recipe states" if source.bytes else "a file of unknown size may have"
        raise InputError(
            f"{source.address}: the server sends more than the "
            f"{source.bytes or MOST_OF_UNKNOWN:,} bytes that {stated}; "
            f"{ELSEWHERE.format(source.name)}"
        )


def check(source: Source, path: Path) -> None:
    """Raise an InputError if a downloaded file has an unexpected size or checksum."""
    size, expected = path.stat().st_size, source.sha256.rpartition(":")[2]
    if source.bytes and size != source.bytes:
        wrong = f"{size:,} of {source.bytes:,} bytes arrived"
    elif (found := checksum(path, source)) != expected:
        wrong = f"the checksum of the file is {found[:16]}, expected {expected[:16]} "
        wrong += "(the file has changed or was damaged)"
    else:
        return
    elsewhere = ELSEWHERE.format(source.name)
    raise InputError(f"{source.address}: {wrong}; try again, or {elsewhere}")


def checksum(path: Path, source: Source) -> str:
    """Return the SHA-256 of a file, or of its decompressed content (see `Source.sha256`)."""
    packed = source.sha256.startswith("text:")
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except PACKING_ERRORS as error:
        return f"none: {error}"
