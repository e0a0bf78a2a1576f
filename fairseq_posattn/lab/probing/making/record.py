"""Describe tasks.json, which says how a folder of probing tasks was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fairseq_posattn.io.records import Open, at_least, one_of, read_record

AGAIN = "make the tasks again with posattn-probe-tasks"


@dataclass(frozen=True)
class Source:
    """This is a corpus that tasks were made from; its content tells it from others."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class MadeTask(Open):
    """This says how many sentences a task has.

    splits: how many there are for train, dev and test.
    left_out: how many sentences of the corpus were left out for each reason.
    """

    sentences: int = field(metadata=at_least(1))
    classes: int = field(metadata=at_least(1))
    splits: dict[str, int]
    left_out: dict[str, int]


@dataclass(frozen=True)
class Made(Open):
    """This says how a folder of tasks was made.

    trees: whether the trees of the corpus are those of people or of a parser.
    left_out: how many sentences no task took, for each reason.
    refused: why a task was not made.
    """

    version: str
    trees: str = field(metadata=one_of("gold", "parsed"))
    settings: dict
    corpora: list[Source]
    left_out: dict[str, int]
    tasks: dict[str, MadeTask]
    refused: dict[str, str]


def read_made(path: Path) -> Made:
    """Return what a tasks.json says."""
    return read_record(Made, path, AGAIN)
