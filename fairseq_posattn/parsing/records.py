"""What the JSON files of a sharded parse hold: plan.json, and the marker of each shard."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.records import as_record, at_least
from fairseq_posattn.trees.conllu_writer import plain_line


@dataclass(frozen=True)
class Shard:
    lines: int = field(metadata=at_least(1))
    start: int = field(metadata=at_least(0))  # lines before it
    sha256: str  # of its lines
    trees_sha256: str | None = None  # of its file of given trees


@dataclass(frozen=True)
class Digest:
    """What a file is known by."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class GivenTrees(Digest):
    path: str


@dataclass(frozen=True)
class Plan:
    """What is parsed, how, and how it was cut."""

    source: Digest
    parser: dict
    shard_lines: int = field(metadata=at_least(1))
    trees: GivenTrees | None
    shards: list[Shard]


@dataclass(frozen=True)
class Done(Digest):
    """The output of a shard; notes: line numbers, and what the user should know of the line."""

    lines: int
    notes: list


def read_plan(path: Path, remedy: str) -> dict:
    """The plan as it was written, checked."""
    about = read_json(path, remedy)
    shards = as_record(Plan, about, str(path), remedy).shards
    lines = 0
    for k, shard in enumerate(shards):
        if shard.start != lines:
            found = f"shards[{k}].start is {shard.start} after {lines} lines"
            raise InputError(f"{path}: damaged ({found}); {remedy}")
        lines += shard.lines
    return about


def read_marker(path: Path) -> Done:
    """The marker of a finished shard, checked."""
    remedy = "remove it, and its lines are parsed again"
    done = as_record(Done, read_json(path, remedy), str(path), remedy)
    if not all(is_note(note) for note in done.notes):
        raise InputError(f"{path}: damaged (notes); {remedy}")
    return done


def is_note(note: object) -> bool:
    return isinstance(note, list) and [type(part) for part in note] == [int, str]


def checksum(lines: Iterable[str]) -> str:
    """Return the checksum of lines as the comments of a CoNLL-U file can hold them."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(plain_line(line).encode() + b"\n")
    return digest.hexdigest()
