"""Record that a result is complete, and the inputs and options from which it was computed.

A record is a JSON file, which is completed after the output files:

    key      everything that determines the result: options, input files, format version
    outputs  size and checksum of each output file
    answer   further information about the result
    sha256   the checksum of this record, if it has an answer

If a record contains `outputs`, the result is therefore complete. Programs compare the key and the
outputs with the record, and recompute the result if they differ.
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
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import fingerprint, read_json
from fairseq_posattn.files.paths import refuse_file
from fairseq_posattn.files.terminal import say

File = str | Path
State = dict[str, Any]  # size and checksum of a file


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@dataclass(frozen=True)
class StepRecord:
    """The record of a result. Without outputs, it only records that the computation has started."""

    key: Any
    outputs: list[State] | None = None
    answer: dict[str, Any] = field(default_factory=dict)

    def write(self, path: File) -> None:
        """Write the record atomically."""
        about: dict[str, Any] = {"key": self.key}
        if self.outputs is not None:
            about["outputs"] = self.outputs
        if self.answer:
            about["answer"] = self.answer
            about["sha256"] = digest(about)
        with written_whole(path) as file:
            json.dump(about, file)

    @classmethod
    def read(cls, path: File) -> StepRecord | None:
        """Read a record; return None if it is missing or damaged."""
        try:
            found = read_json(path, "")
        except (FileNotFoundError, InputError):
            return None
        checksum = found.pop("sha256", None)
        if "key" not in found or (checksum != digest(found) if "answer" in found else checksum):
            return None
        return cls(found["key"], found.get("outputs"), found.get("answer", {}))

    def matches(
        self, key: object, outputs: Sequence[File], state: Callable[[File], State] = fingerprint
    ) -> bool:
        """Return whether the result has this key and its output files are unchanged."""
        if self.key != key or self.outputs is None or not all(map(os.path.isfile, outputs)):
            return False
        return self.outputs == [state(path) for path in outputs]


def completed_record(path: File, key: object, outputs: Sequence[File]) -> StepRecord | None:
    """Return the record of a result if it is complete, unchanged and has this key, or else None."""
    found = StepRecord.read(path)
    return found if found and found.matches(key, outputs) else None


class Steps:
    """Runs steps that are unfinished, or whose inputs or options have changed.

    Files are compared by content, so that they can be copied or moved.

    tell: a function that prints a line for the user.
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
        """Run `action` unless its outputs already exist for the same options and inputs.

        forget: a function that removes the files of an earlier, interrupted action. It is called
            unless the earlier action had the same options and inputs.
        """
        record = self.records / f"{name}.json"
        key, before = digest([choices, *map(self.state, inputs)]), StepRecord.read(record)
        if before and before.matches(key, outputs, self.state):
            self.tell(f"{name}: already done")
            return
        self.tell(f"{name} ...")
        if forget and (before is None or before.key != key):
            forget()
        StepRecord(key).write(record)
        action()
        StepRecord(key, [self.state(path) for path in outputs]).write(record)

    def state(self, path: File) -> State:
        """Return the size and the checksum of a file.

        They are cached until the file's inode, size or modification time changes.
        """
        found = os.stat(path)
        place = str(path), found.st_ino, found.st_size, found.st_mtime_ns
        if place not in self.states:
            self.states[place] = fingerprint(path)
        return self.states[place]
