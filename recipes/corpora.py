"""Corpora for the recipes: fetched, unpacked, counted.

    python recipes/corpora.py fetch FOLDER SOURCES.tsv    # downloads what is missing; checksums
    python recipes/corpora.py take FOLDER NAME OUT        # NAME, plain or packed; checked
    python recipes/corpora.py join OUT PART [PART ...]    # several files after each other
    python recipes/corpora.py expect FILE LINES [PERCENT] # else an error

SOURCES.tsv: name, bytes (-: not known), sha256 (text:...: of what is packed) and address of a file,
separated by tabs.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn import command_line
from fairseq_posattn.files import (
    PACKING_ERRORS,
    InputError,
    count_lines,
    read_lines,
    written_whole,
)

PACKED = ("", ".gz", ".xz", ".zst")
CHUNK = 1 << 20


class Source(NamedTuple):
    name: str
    bytes: int
    sha256: str
    address: str


def sources(table: str) -> Iterator[Source]:
    for number, line in enumerate(read_lines(table), start=1):
        if line and not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != 4:
                raise InputError(f"{table}:{number}: expected 4 columns, found {len(columns)}")
            size = 0 if columns[1] == "-" else int(columns[1])
            yield Source(columns[0], size, *columns[2:])


def fetch(folder: Path, table: str) -> None:
    """What is complete is not fetched again; what was broken off goes on where it was."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources(table):
        if not (folder / source.name).exists():
            fetch_one(folder, source)


def fetch_one(folder: Path, source: Source) -> None:
    partial = folder / f"{source.name}.part"
    if not source.bytes or size_of(partial) < source.bytes:
        download(source, partial)
    kind, _, expected = source.sha256.rpartition(":")
    try:
        found = checksum(partial, packed=kind == "text")
    except PACKING_ERRORS as error:
        found = f"none ({error})"
    if found != expected:
        partial.unlink()
        raise InputError(
            f"{source.address}: damaged on the way, or changed since: its checksum is {found}, "
            f"expected {expected}; start again, or get {source.name} elsewhere and name its "
            "folder with --from"
        )
    os.replace(partial, folder / source.name)


def download(source: Source, partial: Path) -> None:
    begin = size_of(partial) if source.bytes else 0
    headers = {"Range": f"bytes={begin}-"} if begin else {}
    request = urllib.request.Request(source.address, headers=headers)
    print(f"{source.address} ({source.bytes:,} bytes, {begin:,} there)", file=sys.stderr)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            resumed = getattr(answer, "status", None) == 206  # others begin anew
            with open(partial, "ab" if resumed else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise InputError(
            f"{source.address}: cannot be downloaded ({getattr(error, 'reason', error)}); without "
            f"a network, get {source.name} elsewhere and name its folder with --from DIR"
        ) from error
    if size_of(partial) < source.bytes:
        raise InputError(f"{source.address}: broken off; the same command goes on from there")


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def checksum(path: Path, packed: bool = False) -> str:
    digest = hashlib.sha256()
    with gzip.open(path) if packed else open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def find(folder: str, name: str) -> str:
    found = [f"{folder}/{name}{end}" for end in PACKED if os.path.exists(f"{folder}/{name}{end}")]
    if not found:
        raise InputError(f"{folder}/{name}: no such file, nor {name}.gz, .xz or .zst")
    return found[0]


def take(folder: str, name: str, out: str) -> None:
    copy_lines(out, [find(folder, name)])


def copy_lines(out: str, parts: list[str]) -> None:
    """Checked to be UTF-8, with plain line ends."""
    with written_whole(out) as file:
        for part in parts:
            for line in read_lines(part):
                file.write(line.replace("\r", " ") + "\n")


def expect(path: str, lines: int, percent: float) -> None:
    found = count_lines(path)
    if abs(found - lines) > lines * percent / 100:
        about = f"about {lines:,} (± {percent:g} %)" if percent else f"{lines:,}"
        raise InputError(
            f"{path}: {found:,} sentences, expected {about}: another release, or incomplete? To go "
            "on with it all the same: --any-size"
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)

    def step(name: str, action) -> argparse.ArgumentParser:
        made = steps.add_parser(name)
        made.set_defaults(action=action)
        return made

    fetching = step("fetch", lambda o: fetch(Path(o.folder), o.sources))
    fetching.add_argument("folder")
    fetching.add_argument("sources")
    taking = step("take", lambda o: take(o.folder, o.name, o.out))
    for argument in ("folder", "name", "out"):
        taking.add_argument(argument)
    joining = step("join", lambda o: copy_lines(o.out, o.parts))
    joining.add_argument("out")
    joining.add_argument("parts", nargs="+")
    expecting = step("expect", lambda o: expect(o.file, o.lines, o.percent))
    expecting.add_argument("file")
    expecting.add_argument("lines", type=int)
    expecting.add_argument("percent", type=float, nargs="?", default=0)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    options.action(options)


if __name__ == "__main__":
    command_line.run(main)
