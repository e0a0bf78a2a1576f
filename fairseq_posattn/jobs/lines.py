"""Process the lines of files in shards, and join the outputs.

    FOLDER/plan.json              the plan: inputs, options and shards
    FOLDER/input/00000/train.en   an input file of a shard
    FOLDER/done/00000/train.en    an output file of a shard
    FOLDER/done/00000.json        the record of a finished shard, which is written last
    FOLDER/logs                   files of the executors

Each shard is processed by one process, from its first to its last line. Therefore the result
depends neither on the number of workers nor on restarts.
"""

import contextlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_together
from fairseq_posattn.files.files import OPENERS, fingerprint
from fairseq_posattn.files.lock import locked
from fairseq_posattn.jobs.step_records import StepRecord, completed_record

PLAN = "plan.json"
TASK = "task.pickle"  # the work for Slurm's jobs, written just before they are submitted
Files = Sequence[str]
Answer = dict[str, Any]  # it must be a JSON object
# A function that writes the outputs of a step, given the output files of each shard.
Combine = Callable[[Sequence[Files], Files], object]


@dataclass(frozen=True)
class Part:
    """The files that one call of `act` processes: whole files or a shard.

    start: the number of lines that precede the shard in the whole files.
    """

    inputs: Files
    outputs: Files
    start: int = 0


def lines_of(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from file


@dataclass(frozen=True)
class LineStep:
    """A step that processes each line of its input files independently.

    name: the name of the step in messages, and the name of its cluster jobs.
    act: a picklable function that writes the outputs of a part. It may return a JSON object.
    choices: the options on which the outputs depend.
    read: a function that yields the lines of an input file. Unless it is `lines_of`, `act` is
        only called with shards.
    record: path of a record of the outputs, which is written after joining. With a record, Slurm
        also runs a job that joins the outputs. Without a record, the caller must check that inputs
        and options have not changed (see `StepsByLines`).
    verb, done: verb forms for messages about jobs (`parses`) and about lines (`parsed`).
    on_gpus: whether each local worker is assigned one of the GPUs, if there are any.
    """

    name: str
    inputs: Files
    outputs: Files
    act: Callable[[Part], Answer | None]
    choices: object = None
    read: Callable[[str], Iterator[bytes]] = lines_of
    record: str | None = None
    verb: str = "does"
    done: str = "done"
    on_gpus: bool = False

    def key(self) -> dict[str, Any]:
        """Return the key of the record: the options and the checksums of the inputs.

        File names are not included, so that the files can be moved. Only parses have a record, in
        which the options are called `parser`.
        """
        return {"parser": self.choices, "files": [fingerprint(path) for path in self.inputs]}


@dataclass(frozen=True)
class Shard:
    """A shard: number of lines, number of preceding lines, and checksums of its input files."""

    lines: int
    start: int
    files: list[dict]


@dataclass(frozen=True)
class LineWork:
    """A step that is split into shards, and the folder of their inputs and outputs."""

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
        """Return the indices of unfinished shards.

        All files of the folder are listed, because network file systems may cache that a single
        file is missing.
        """
        there = set(os.listdir(self.folder / "done"))
        return [k for k in range(len(self.shards)) if self.marker(k).name not in there]

    def lines_done(self) -> int:
        """Return the number of lines in finished shards.

        They are counted from the records, because a killed worker does not report its work.
        """
        return self.lines - sum(self.shards[k].lines for k in self.pending())

    def record(self, k: int) -> StepRecord | None:
        """Return the record of a shard, or None if its outputs are missing or have changed."""
        return completed_record(self.marker(k), self.shards[k].files, self.part(k).outputs)


def parts(folder: Path, k: int, files: Files) -> list[str]:
    """Return the paths of the given files in shard k; inputs lose a suffix such as .gz."""
    names = [Path(file) for file in files]
    if folder.name == "input":
        names = [name.with_suffix("") if name.suffix in OPENERS else name for name in names]
    return [str(folder / f"{k:05d}" / name.name) for name in names]


def do_shard(work: LineWork, k: int) -> None:
    """Process shard k unless it is already finished."""
    if work.marker(k).exists():
        return
    part, files = work.part(k), work.shards[k].files
    for path, expected in zip(part.inputs, files, strict=True):
        if fingerprint(path) != expected:
            raise InputError(
                f"{path}: the file of this shard was modified after it was written; remove "
                f"{work.folder} and run the same command again"
            )
    (work.folder / "done" / f"{k:05d}").mkdir(exist_ok=True)
    with named_as_whole(work, k), contextlib.redirect_stderr(io.StringIO()):  # no progress bars
        answer = work.step.act(part)
    StepRecord(files, [fingerprint(path) for path in part.outputs], answer or {}).write(
        work.marker(k)
    )


@contextlib.contextmanager
def named_as_whole(work: LineWork, k: int) -> Iterator[None]:
    """Replace a shard's paths and line numbers in error messages by those of the whole files."""
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


def concatenate_all(shards: Sequence[Files], outputs: Files) -> None:
    """Concatenate the output files of all shards.

    They may be compressed, because the compression formats permit several streams in one file.
    """
    with replaced_together(outputs) as partials:
        for partial, paths in zip(partials, zip(*shards, strict=True), strict=True):
            with open(partial, "wb") as joined:
                for path in paths:
                    with open(path, "rb") as file:
                        shutil.copyfileobj(file, joined)


def join(work: LineWork, combine: Combine = concatenate_all) -> list[Answer]:
    """Join the outputs of all shards, and return the JSON objects of the shards.

    If outputs of shards are missing or have changed, the records of these shards are removed, so
    that the next run processes them again, and an InputError is raised.
    """
    step, key = work.step, work.step.key() if work.step.record else {}
    if step.record and key["files"] != work.key["files"]:
        raise InputError(
            f"{step.inputs[0]}: this file or a parallel one changed while it was {step.done}; "
            f"remove {work.folder} to start again"
        )
    records = [work.record(k) for k in range(len(work.shards))]
    if damaged := [k for k, record in enumerate(records) if record is None]:
        for k in damaged:
            work.marker(k).unlink(missing_ok=True)
        others = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise InputError(
            f"{work.marker(damaged[0]).with_suffix('')}{others}: shard outputs are missing or "
            "damaged; run the same command again to recreate them"
        )
    combine([work.part(k).outputs for k in range(len(work.shards))], step.outputs)
    answers = [record.answer for record in records if record]
    if step.record:
        lists = {name: [x for one in answers for x in one[name]] for name in answers[0]}
        outputs = [fingerprint(path) for path in step.outputs]
        StepRecord(key, outputs, {"lines": work.lines, **lists}).write(step.record)
    return answers


def join_once(work: LineWork) -> None:
    """Join all shards unless another run has already written the outputs."""
    with locked(work.step.outputs[0], wait=True):
        if (work.folder / PLAN).exists() or not Path(work.step.outputs[0]).exists():
            join(work)
