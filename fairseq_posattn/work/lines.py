"""Do a step that goes from line to line in shards, and join what was made.

    FOLDER/plan.json              is the record of the cut: from what, and how
    FOLDER/input/00000/train.en   holds the lines of a shard in one of the files
    FOLDER/done/00000/train.en    holds what was made of them
    FOLDER/done/00000.json        is the record of that, which is written last
    FOLDER/logs                   holds what the executors write

One process does a shard from its first line to its last. So the result is the same whoever did
what, and however often one was killed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_together
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import OPENERS
from fairseq_posattn.io.lock import locked
from fairseq_posattn.work.made import Made, made_before

PLAN = "plan.json"
TASK = "task.pickle"  # what Slurm's jobs do; it is there from just before they are submitted
Files = Sequence[str]
Answer = dict[str, Any]  # it must be a JSON object


@dataclass(frozen=True)
class Part:
    """This is what a step does at once: files, or those of a shard, before which are some lines."""

    inputs: Files
    outputs: Files
    start: int = 0


def lines_of(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from file


@dataclass(frozen=True)
class LineStep:
    """A step makes files from parallel files, and what it makes of a line depends on no other line.

    name: the name of the step for the user, and for the jobs of a cluster.
    act: makes the outputs of a part, and may return an answer. Other processes get it, too.
    join: makes the outputs from those of all shards; without it, they follow each other.
    read: yields what lines there are in an input.
    record: the path of the record of the outputs, which is written when they are joined. Slurm then
        joins them by itself. Without it, the caller knows what was made from what.
    choices: what the outputs depend on beside the inputs.
    verb, done: what is said of a job (it `parses` shards) and of lines (they were `parsed`).
    on_gpus: whether a worker of this machine gets a GPU of its own, if there are any.
    """

    name: str
    inputs: Files
    outputs: Files
    act: Callable[[Part], Answer | None]
    join: Callable[[Sequence[Files]], object] | None = None
    read: Callable[[str], Iterator[bytes]] = lines_of
    record: str | None = None
    choices: dict[str, Any] = field(default_factory=dict)
    verb: str = "does"
    done: str = "done"
    on_gpus: bool = False

    def key(self) -> dict[str, Any]:
        """Return all that the outputs are made from, without names of files, which may be moved."""
        return {**self.choices, "files": [fingerprint(path) for path in self.inputs]}


@dataclass(frozen=True)
class Shard:
    """This says how many lines a shard has, how many come before, and what its files are."""

    lines: int
    start: int
    files: list[dict]


@dataclass(frozen=True)
class LineWork:
    """This work is a step that is cut into shards, in a folder that keeps what is done of it."""

    folder: Path
    step: LineStep
    shards: list[Shard]
    key: Any = None

    @property
    def lines(self) -> int:
        return sum(shard.lines for shard in self.shards)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def part(self, k: int) -> Part:
        inputs = parts(self.folder / "input", k, self.step.inputs)
        outputs = parts(self.folder / "done", k, self.step.outputs)
        return Part(inputs, outputs, self.shards[k].start)

    def marker(self, k: int) -> Path:
        return self.folder / "done" / f"{k:05d}.json"

    def pending(self) -> list[int]:
        """Return the numbers of the shards that are not done.

        The folder is listed, because a network file system may repeat an old answer to the question
        whether one file is there.
        """
        there = set(os.listdir(self.folder / "done"))
        return [k for k in range(len(self.shards)) if self.marker(k).name not in there]

    def made(self, k: int) -> Made | None:
        """Return the record of a shard, or None if its files are not as they were written."""
        return made_before(self.marker(k), self.shards[k].files, self.part(k).outputs)

    @property
    def for_workers(self) -> LineWork:
        """Return the work as other processes get it: a `join` of the step's own stays here."""
        return replace(self, step=replace(self.step, join=None))


def parts(folder: Path, k: int, files: Files) -> list[str]:
    """Return the paths that files have in a shard; there, inputs are not compressed."""
    names = [Path(file) for file in files]
    if folder.name == "input":
        names = [name.with_suffix("") if name.suffix in OPENERS else name for name in names]
    return [str(folder / f"{k:05d}" / name.name) for name in names]


def do_shard(work: LineWork, k: int) -> None:
    """Do one shard, unless it is done."""
    if work.marker(k).exists():
        return
    part, files = work.part(k), work.shards[k].files
    for path, expected in zip(part.inputs, files, strict=True):
        if fingerprint(path) != expected:
            raise InputError(
                f"{path}: the lines are not those that were cut for this shard; remove "
                f"{work.folder}, and run the same command again"
            )
    (work.folder / "done" / f"{k:05d}").mkdir(exist_ok=True)
    with named_as_whole(work, k), contextlib.redirect_stderr(io.StringIO()):  # without bars
        answer = work.step.act(part)
    Made(files, [fingerprint(path) for path in part.outputs], answer or {}).write(work.marker(k))


@contextlib.contextmanager
def named_as_whole(work: LineWork, k: int) -> Iterator[None]:
    """Let an error name the file and the line of the whole text, and not those of the shard."""
    try:
        yield
    except InputError as error:
        said, part = str(error), work.part(k)
        pairs = [*zip(part.inputs, work.step.inputs, strict=True)]
        for path, whole in [*pairs, *zip(part.outputs, work.step.outputs, strict=True)]:
            said = re.sub(
                rf"{re.escape(path)}(?::(\d+))?",
                lambda found, whole=whole: (  # type: ignore[misc]
                    whole + (f":{part.start + int(found[1])}" if found[1] else "")
                ),
                said,
            )
        raise type(error)(said) from error


def join(work: LineWork) -> list[Answer]:
    """Make the outputs from those of all shards, each of which must be as it was written.

    The records of damaged shards are removed, so that the next run does them again.
    """
    step, key = work.step, work.step.key() if work.step.record else {}
    if step.record and key["files"] != work.key["files"]:
        raise InputError(
            f"{step.inputs[0]}: the file changed while it was {step.done}, or one that belongs to "
            f"it; remove {work.folder} and begin anew"
        )
    made = [work.made(k) for k in range(len(work.shards))]
    if damaged := [k for k, record in enumerate(made) if record is None]:
        for k in damaged:
            work.marker(k).unlink(missing_ok=True)
        others = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise InputError(
            f"{work.marker(damaged[0]).with_suffix('')}{others}: what was made of this shard is "
            "missing, or was damaged after it was written; run the same command again, which makes "
            "it anew"
        )
    every = [work.part(k).outputs for k in range(len(work.shards))]
    if step.join:
        step.join(every)
    elif step.outputs:
        with replaced_together(step.outputs) as partials:
            for partial, paths in zip(partials, zip(*every, strict=True), strict=True):
                concatenate(paths, partial)
    answers = [record.answer for record in made if record]
    if step.record:
        lists = {name: [x for one in answers for x in one[name]] for name in answers[0]}
        outputs = [fingerprint(path) for path in step.outputs]
        Made(key, outputs, {"lines": work.lines, **lists}).write(step.record)
    return answers


def concatenate(paths: Files, out: Path) -> None:
    """Write files one after the other; the streams of compressed ones may follow each other."""
    with open(out, "wb") as joined:
        for path in paths:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, joined)


def join_once(work: LineWork) -> None:
    """Join all shards, unless another run wrote the result before this job began."""
    with locked(work.step.outputs[0], wait=True):
        if (work.folder / PLAN).exists() or not Path(work.step.outputs[0]).exists():
            join(work)
