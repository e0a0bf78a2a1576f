"""Steps that are done once: each leaves a stamp that says from what."""

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
    """Runs what is not done, or was done with other choices or from other files: what counts is
    what is in them."""

    def __init__(self, work: Path):
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
        """forget: removes what an action that was killed left behind, before another one."""
        key = self.digest(choices, inputs)
        before = self.stamp(name)
        if before.get("key") == key and self.all_as_in(before.get("outputs"), outputs):
            say(f"{name}: done before")
            return
        say(f"{name} ...")
        if forget and before.get("key") != key:
            forget()
        self.write(name, {"key": key})
        action()
        self.write(name, {"key": key, "outputs": [self.state(path) for path in outputs]})

    def stamp(self, name: str) -> dict[str, Any]:
        """What was written when the step was done; a damaged one counts for nothing."""
        try:
            return read_json(self.stamps / f"{name}.json", "")
        except (FileNotFoundError, InputError):
            return {}

    def write(self, name: str, stamp: dict[str, Any]) -> None:
        with written_whole(self.stamps / f"{name}.json") as file:
            json.dump(stamp, file)

    def all_as_in(self, states: list[dict[str, Any]] | None, paths: Sequence[str | Path]) -> bool:
        if states is None or not all(os.path.isfile(path) for path in paths):
            return False
        return states == [self.state(path) for path in paths]

    def digest(self, choices: object, inputs: Sequence[str | Path]) -> str:
        """Without the names: the folders may be moved."""
        about = [choices, *(self.state(path) for path in inputs)]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def state(self, path: str | Path) -> dict[str, Any]:
        """Size and checksum, which is made once while the file stays as it is."""
        found = os.stat(path)
        place = str(path), found.st_ino, found.st_size, found.st_mtime_ns
        if place not in self.states:
            self.states[place] = fingerprint(str(path))
        return self.states[place]
