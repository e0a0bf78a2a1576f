"""Read and check the JSON files of a sharded parse: plan.json, and the marker of each shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.records import as_record, at_least
from fairseq_posattn.trees.conllu import plain_line


@dataclass(frozen=True)
class Shard:
    """A shard holds some lines of the source.

    start: the number of lines before it.
    sha256: the checksum of its lines.
    trees_sha256: the checksum of its file of given trees, if there are any.
    """

    lines: int = field(metadata=at_least(1))
    start: int = field(metadata=at_least(0))
    sha256: str
    trees_sha256: str | None = None


@dataclass(frozen=True)
class Digest:
    """A digest is the size and the checksum by which a file is recognised."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class GivenTrees(Digest):
    """This file holds the trees that were given instead of a parser."""

    path: str


@dataclass(frozen=True)
class Plan:
    """A plan says what is parsed, with which parser, and how it was cut into shards."""

    source: Digest
    parser: dict
    shard_lines: int = field(metadata=at_least(1))
    trees: GivenTrees | None
    shards: list[Shard]


@dataclass(frozen=True)
class Done(Digest):
    """This marker describes the output of a finished shard.

    notes: pairs of a line number and what the user should know of that line.
    """

    lines: int
    notes: list


def read_plan(path: Path, remedy: str) -> dict:
    """Read a plan and check it."""
    about = read_json(path, remedy)
    shards = as_record(Plan, about, str(path), remedy).shards
    lines = 0
    for k, shard in enumerate(shards):
        if shard.start != lines:
            found = f"shards[{k}].start is {shard.start} after {lines} lines"
            raise InputError(f"{path}: the file is damaged ({found}); {remedy}")
        lines += shard.lines
    return about


def read_marker(path: Path) -> Done:
    """Read the marker of a finished shard and check it."""
    remedy = "remove it, and the lines of its shard are parsed again"
    done = as_record(Done, read_json(path, remedy), str(path), remedy)
    if not all(is_note(note) for note in done.notes):
        raise InputError(f"{path}: the file is damaged (its notes cannot be read); {remedy}")
    return done


def is_note(note: object) -> bool:
    """Return whether a JSON value is a pair of a line number and a text."""
    return isinstance(note, list) and [type(part) for part in note] == [int, str]


def checksum(lines: Iterable[str]) -> str:
    """Return the checksum of lines as the comments of a CoNLL-U file can hold them."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(plain_line(line).encode() + b"\n")
    return digest.hexdigest()
