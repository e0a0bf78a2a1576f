"""Steps that are done once: each leaves a stamp that says from what."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq_posattn.files import written_whole


class Steps:
    """Runs what is not done, or was done with other choices or other files."""

    def __init__(self, work: Path):
        self.stamps = work / "steps"
        self.stamps.mkdir(parents=True, exist_ok=True)

    def do(
        self,
        name: str,
        choices,
        inputs: Sequence[str | Path],
        outputs: Sequence[str | Path],
        action: Callable[[], None],
    ) -> None:
        key = digest(choices, inputs)
        if self.is_done(name, key, outputs):
            say(f"{name}: done before")
            return
        say(f"{name} ...")
        stamp = self.stamps / f"{name}.json"
        stamp.unlink(missing_ok=True)
        action()
        with written_whole(stamp) as file:
            json.dump({"key": key, "outputs": [state(path) for path in outputs]}, file)

    def is_done(self, name: str, key: str, outputs: Sequence[str | Path]) -> bool:
        stamp = self.stamps / f"{name}.json"
        if not stamp.exists() or not all(os.path.exists(path) for path in outputs):
            return False
        done = json.loads(stamp.read_text())
        return done == {"key": key, "outputs": [state(path) for path in outputs]}


def digest(choices, inputs: Sequence[str | Path]) -> str:
    """Of the choices, and of the files as they are now: a new one counts as another."""
    about = [choices, *([str(path), *state(path)] for path in inputs)]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()


def state(path: str | Path) -> list[int]:
    found = os.stat(path)
    return [found.st_size if os.path.isfile(path) else 0, found.st_mtime_ns]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
