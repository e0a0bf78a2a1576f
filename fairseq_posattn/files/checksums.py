"""Compute checksums, with which later steps detect changed files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from fairseq_posattn.files.paths import refuse_stream


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
