"""Say that a result is done, and from what it was made.

A record is a JSON file that is written after the files of its result:

    key      all that made it: choices, contents of files, the version of a format
    outputs  size and checksum of each of its files
    answer   what else is known of it
    sha256   the checksum of all of that, where there is an answer

So a result with a record is whole. Whoever reads the record compares key and files, and makes the
result again where one of them differs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.paths import refuse_file
from fairseq_posattn.io.progress import say

File = str | Path
State = dict[str, Any]  # size and checksum of a file


def digest(value: object) -> str:
    """Return the checksum of a JSON value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@dataclass(frozen=True)
class Made:
    """This is a record of a result; one without outputs says that the work has begun."""

    key: Any
    outputs: list[State] | None = None
    answer: dict[str, Any] = field(default_factory=dict)

    def write(self, path: File) -> None:
        """Write the record, whole or not at all."""
        about: dict[str, Any] = {"key": self.key}
        if self.outputs is not None:
            about["outputs"] = self.outputs
        if self.answer:
            about["answer"] = self.answer
            about["sha256"] = digest(about)
        with written_whole(path) as file:
            json.dump(about, file)

    @classmethod
    def read(cls, path: File) -> Made | None:
        """Return the record, or None if it is missing or damaged."""
        try:
            found = read_json(path, "")
        except (FileNotFoundError, InputError):
            return None
        checksum = found.pop("sha256", None)
        if "key" not in found or (checksum != digest(found) if "answer" in found else checksum):
            return None
        return cls(found["key"], found.get("outputs"), found.get("answer", {}))

    def holds(
        self, key: object, outputs: Sequence[File], state: Callable[[File], State] = fingerprint
    ) -> bool:
        """Return whether the result was made from this key, and its files are as they were."""
        if self.key != key or self.outputs is None or not all(map(os.path.isfile, outputs)):
            return False
        return self.outputs == [state(path) for path in outputs]


def made_before(path: File, key: object, outputs: Sequence[File]) -> Made | None:
    """Return the record of a whole result that was made from this key, or None."""
    found = Made.read(path)
    return found if found and found.holds(key, outputs) else None


class Steps:
    """This class runs the steps that are not done yet, and those whose inputs or options changed.

    Whether a file has changed is seen from its content, so it may be copied or moved.

    tell: shows a line of text to the user.
    """

    def __init__(self, work: Path, tell: Callable[[str], object] = say):
        self.tell = tell
        refuse_file(work)
        self.records = work / "steps"
        self.records.mkdir(parents=True, exist_ok=True)
        self.states: dict[tuple[str, int, int, int], State] = {}

    def do(
        self,
        name: str,
        choices: object,
        inputs: Sequence[File],
        outputs: Sequence[File],
        action: Callable[[], object],
        forget: Callable[[], None] | None = None,
    ) -> None:
        """Do the step, unless it was done with the same choices, inputs and outputs before.

        forget: this removes what an action with other choices, which was killed, left behind.
        """
        record = self.records / f"{name}.json"
        key, before = digest([choices, *map(self.state, inputs)]), Made.read(record)
        if before and before.holds(key, outputs, self.state):
            self.tell(f"{name}: this was done before")
            return
        self.tell(f"{name} ...")
        if forget and (before is None or before.key != key):
            forget()
        Made(key).write(record)
        action()
        Made(key, [self.state(path) for path in outputs]).write(record)

    def state(self, path: File) -> State:
        """Return size and checksum of a file, which are computed again only if it changes."""
        found = os.stat(path)
        place = str(path), found.st_ino, found.st_size, found.st_mtime_ns
        if place not in self.states:
            self.states[place] = fingerprint(path)
        return self.states[place]
