"""Describe a work that is cut into shards, each of which is done by itself, on any machine.

FOLDER/plan.json        says what the work is and how it was cut
FOLDER/done/00000.json  is written last and says that a shard is done
FOLDER/logs             holds what the executors write
"""

from __future__ import annotations

import os
import shutil
from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fairseq_posattn.io.atomic import leftovers, temp_name

PLAN = "plan.json"


class HasLines(Protocol):
    """This holds some lines of a text."""

    @property
    def lines(self) -> int:
        """Return how many lines there are."""


class ShardedWork(ABC):
    """A sharded work keeps what is done of it in a folder, so that no kill loses it.

    shards: the parts of the work, each with its number of lines.
    """

    folder: Path
    shards: Sequence[HasLines]

    @property
    def lines(self) -> int:
        """Return the number of lines of all shards."""
        return sum(shard.lines for shard in self.shards)

    @property
    def logs(self) -> Path:
        """Return the folder of the logs."""
        return self.folder / "logs"

    def marker(self, k: int) -> Path:
        """Return the file that says that a shard is done."""
        return self.folder / "done" / f"{k:05d}.json"

    def is_done(self, k: int) -> bool:
        """Return whether a shard is done."""
        return self.marker(k).exists()

    def pending(self) -> list[int]:
        """Return the numbers of the shards that are not done.

        The folder is listed, because a network file system may repeat an old answer to the question
        whether one file is there.
        """
        there = set(os.listdir(self.folder / "done"))
        return [k for k in range(len(self.shards)) if self.marker(k).name not in there]


@dataclass(frozen=True)
class Task:
    """A task is a sharded work with what executors do for it.

    name: the name of the jobs.
    verb, done: what is said of a job (it `parses` shards) and of lines (they were `parsed`).
    do: does one shard, unless it is done. Other processes get this function, too.
    join: joins all shards, where Slurm goes on after the program that submitted them has ended.
    on_gpus: whether a worker of this machine gets a GPU of its own, if there are any.
    """

    name: str
    verb: str
    done: str
    work: ShardedWork
    do: Callable[[Any, int], object]
    join: Callable[[Any], object] | None = None
    on_gpus: bool = False


def remove(parts: Path) -> None:
    """Remove a folder of parts.

    It is renamed first, so that a later run sees all of it or nothing, even if this one is killed.
    """
    folder = Path(os.path.realpath(parts))
    removed = temp_name(folder)
    os.rename(folder, removed)
    shutil.rmtree(removed)


def remove_rest(parts: Path) -> None:
    """Remove what a run has left of a folder of parts if it was killed in `remove` or `plan`."""
    for left in leftovers(Path(os.path.realpath(parts))):
        shutil.rmtree(left, ignore_errors=True)
