"""Do each step of a longer work once: it leaves a stamp that says from what it was made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.progress import say


class Steps:
    """This class runs the steps that are not done yet, and those whose inputs or options changed.

    Whether a file has changed is seen from its content, so it may be copied or moved.

    tell: shows a line of text to the user.
    """

    def __init__(self, work: Path, tell: Callable[[str], object] = say):
        self.tell = tell
        self.stamps = work / "steps"
        self.stamps.mkdir(parents=True, exist_ok=True)
        self.states: dict[tuple[str, int, int, int], dict[str, Any]] = {}

    def do(
        self,
        name: str,
        choices: object,
        inputs: Sequence[str | Path],
        outputs: Sequence[str | Path],
        action: Callable[[], object],
        forget: Callable[[], None] | None = None,
    ) -> None:
        """Do the step, unless it was done with the same choices, inputs and outputs before.

        forget: this removes what an action with other choices, which was killed, left behind.
        """
        key = self.digest(choices, inputs)
        before = self.stamp(name)
        if before.get("key") == key and self.all_as_in(before.get("outputs"), outputs):
            self.tell(f"{name}: this was done before")
            return
        self.tell(f"{name} ...")
        if forget and before.get("key") != key:
            forget()
        self.write(name, {"key": key})
        action()
        self.write(name, {"key": key, "outputs": [self.state(path) for path in outputs]})

    def stamp(self, name: str) -> dict[str, Any]:
        """Return the stamp that was written when the step was done, or {} if it is damaged."""
        try:
            return read_json(self.stamps / f"{name}.json", "")
        except (FileNotFoundError, InputError):
            return {}

    def write(self, name: str, stamp: dict[str, Any]) -> None:
        """Write the stamp of a step."""
        with written_whole(self.stamps / f"{name}.json") as file:
            json.dump(stamp, file)

    def all_as_in(self, states: list[dict[str, Any]] | None, paths: Sequence[str | Path]) -> bool:
        """Return whether all files exist and are as the stamp says."""
        if states is None or not all(os.path.isfile(path) for path in paths):
            return False
        return states == [self.state(path) for path in paths]

    def digest(self, choices: object, inputs: Sequence[str | Path]) -> str:
        """Return a digest of choices and inputs, without names, so that folders may be moved."""
        about = [choices, *(self.state(path) for path in inputs)]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def state(self, path: str | Path) -> dict[str, Any]:
        """Return size and checksum of a file, which are computed again only if it changes."""
        found = os.stat(path)
        place = str(path), found.st_ino, found.st_size, found.st_mtime_ns
        if place not in self.states:
            self.states[place] = fingerprint(str(path))
        return self.states[place]
