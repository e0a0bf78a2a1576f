"""Download files, resuming interrupted downloads if the server supports it.

A file is given its final name only after the download is complete and its checksum has been
verified. A download never writes more bytes than the recipe specifies (or 1 GiB if it specifies no
size), regardless of what the server sends.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import full_disk_named
from fairseq_posattn.io.files import PACKING_ERRORS
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.progress import say
from fairseq_posattn.io.records import limit
from fairseq_posattn.lab.experiments.allowed import plain

CHUNK = 1 << 20
LENGTH = re.compile(r"[1-9][0-9]{0,14}")
PATIENCE = 60  # seconds to wait for an answer
ELSEWHERE = "get {} from another source, and give its folder with --from FOLDER"
REFUSED = (400, 412, 416)  # status codes for rejected range requests
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

    @property
    def most(self) -> int:
        return self.bytes or MOST_OF_UNKNOWN


def fetch(folder: Path, sources: Sequence[Source]) -> None:
    """Download the files that are missing from a folder, resuming interrupted downloads.

    Raises InputError if a download fails or if a file has an unexpected size or checksum.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        if not (folder / source.name).exists():
            with locked(folder / source.name):
                fetch_one(folder, source)


def fetch_one(folder: Path, source: Source) -> None:
    """Download one file, verify its checksum, and give it its final name."""
    partial = folder / f"{source.name}.part"
    kept = size_of(partial)
    if not kept or kept != source.bytes:
        kept = download(source, partial, kept if kept < source.bytes else 0)
    found = checksum(partial, source)
    expected = source.sha256.rpartition(":")[2]
    if found == expected:
        os.replace(partial, folder / source.name)
        return
    partial.unlink()
    if not kept:
        raise InputError(
            f"{source.address}: the checksum of the file is {found[:16]}, expected "
            f"{expected[:16]} (the file has changed or was damaged); try again, or "
            f"{ELSEWHERE.format(source.name)}"
        )
    say(f"{source.address}: the partial download has a wrong checksum, so the download restarts")
    fetch_one(folder, source)


def download(source: Source, partial: Path, kept: int) -> int:
    """Download a file, except the first `kept` bytes, which are already on disk.

    Returns the number of bytes that were reused, which is 0 if the server sent the whole file.
    """
    say(f"downloading {source.address} ({source.bytes:,} bytes, {kept:,} already here)")
    answer, kept = opened(source, kept)
    with answer:
        refuse_other_size(answer, source, kept)
        with full_disk_named(partial.parent), open_partial(partial, anew=not kept) as file:
            size = kept
            for chunk in chunks(answer, source):
                size += len(chunk)
                if size > source.most:
                    partial.unlink()
                    raise sends_too_much(source)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
    if size < source.bytes:
        raise InputError(
            f"{source.address}: the download was interrupted; run the same command to resume"
        )
    return kept


def opened(source: Source, kept: int) -> tuple:
    """Return the server's response and the offset at which it starts (`kept` or 0)."""
    if kept and (answer := asked(source, kept)):
        if goes_on(answer, kept, source.bytes):
            return answer, kept
        if answer.status != 206:  # the server sends the whole file
            return answer, 0
        answer.close()
    return asked(source, 0), 0


def asked(source: Source, begin: int):
    """Request a file, starting at offset `begin`.

    Returns the open response, or None if the server rejects the range request.
    """
    headers = {"Range": f"bytes={begin}-"} if begin else {}
    try:
        request = urllib.request.Request(source.address, headers=headers)
        return urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        if begin and error.code in REFUSED:
            error.close()
            return None
        raise unreachable(source, error) from error
    except NETWORK_ERRORS as error:
        raise unreachable(source, error) from error


def goes_on(answer, kept: int, size: int) -> bool:
    """Return whether a response starts at offset `kept` of a file of `size` bytes."""
    found = re.fullmatch(
        r"bytes ([0-9]+)-[0-9]+/([0-9]+|\*)", answer.headers["Content-Range"] or ""
    )
    return bool(
        answer.status == 206 and found and found[1] == str(kept) and found[2] in (str(size), "*")
    )


def refuse_other_size(answer, source: Source, kept: int) -> None:
    """Raise an InputError if the server announces an unexpected file size."""
    if not kept and answer.status == 206:
        raise InputError(
            f"{source.address}: the server sends only part of the file; "
            f"{ELSEWHERE.format(source.name)}"
        )
    length = answer.headers["Content-Length"] or ""
    size = kept + int(length) if LENGTH.fullmatch(length) else source.bytes
    if source.bytes and size != source.bytes:
        raise InputError(
            f"{source.address}: the file has {size:,} bytes, expected {source.bytes:,}; "
            f"{ELSEWHERE.format(source.name)}"
        )
    if size > source.most:
        raise sends_too_much(source)


def sends_too_much(source: Source) -> InputError:
    stated = "the recipe states" if source.bytes else "a file of unknown size may have"
    return InputError(
        f"{source.address}: the server sends more than the {source.most:,} bytes that {stated}; "
        f"{ELSEWHERE.format(source.name)}"
    )


def unreachable(source: Source, error: Exception) -> InputError:
    is_answer = isinstance(error, urllib.error.HTTPError)  # its text contains the status code
    reason = error if is_answer else getattr(error, "reason", error)
    what = " ".join(str(reason).split()) or repr(error)
    return InputError(
        f"{source.address}: the file cannot be downloaded ({what[:80]!a}); without network access, "
        f"{ELSEWHERE.format(source.name)}"
    )


def chunks(answer, source: Source) -> Iterator[bytes]:
    """Yield data as soon as they are received, so that an interrupted download keeps them."""
    while True:
        try:
            chunk = answer.read1(CHUNK)
        except NETWORK_ERRORS as error:
            raise unreachable(source, error) from error
        if not chunk:
            return
        yield chunk


def open_partial(path: Path, anew: bool) -> BinaryIO:
    """Open a partially downloaded file for writing; raise an OSError if it is a symbolic link."""
    kind = os.O_TRUNC if anew else os.O_APPEND
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | kind
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def checksum(path: Path, source: Source) -> str:
    """Return the SHA-256 of a file, or of its decompressed content (see `Source.sha256`)."""
    packed = source.sha256.startswith("text:")
    digest = hashlib.sha256()
    try:
        with gzip.open(path) if packed else open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except PACKING_ERRORS as error:
        return f"none: {error}"
    return digest.hexdigest()
