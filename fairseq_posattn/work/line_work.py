"""Do a step that goes from line to line in shards of lines, and put the results together.

    FOLDER/plan.json              says how the files were cut
    FOLDER/input/00000/train.en   holds the lines of a shard in one of the files
    FOLDER/done/00000/train.en    holds what was made of them
    FOLDER/done/00000.json        is written last and says that the shard is done

One process does a shard from its first line to its last. So the result is the same whoever did
what, and however often one was killed.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import folder_written_whole, replaced_together, written_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_json, same_number_of_lines
from fairseq_posattn.io.records import as_record, at_least
from fairseq_posattn.work.cluster import Cluster
from fairseq_posattn.work.running import Progress, do, wait_for_slurm
from fairseq_posattn.work.slurm_jobs import Jobs
from fairseq_posattn.work.work import PLAN, ShardedWork, Task, remove, remove_rest

Files = Sequence[str]
Answer = dict[str, Any]  # it must be a JSON object


@dataclass(frozen=True)
class LineStep:
    """A step makes files from parallel files, and what it makes of a line depends on no other line.

    name: the name of the step for the user, and for the jobs of a cluster.
    act: makes the outputs from the inputs and returns an answer. It is given the files, or those of
        a shard, and other processes get it, too.
    join: makes the outputs from those of all shards; without it, they follow each other.
    """

    name: str
    inputs: Files
    outputs: Files
    act: Callable[[Files, Files], Answer]
    join: Callable[[Sequence[Files]], object] | None = None


@dataclass(frozen=True)
class Lines:
    """These lines are a shard: how many there are, how many come before, and their checksums."""

    lines: int = field(metadata=at_least(1))
    start: int = field(metadata=at_least(0))
    files: list[dict]


@dataclass(frozen=True)
class Plan:
    """A plan lists the shards of a step."""

    shards: list[Lines]


@dataclass(frozen=True)
class Done:
    """This marker of a shard has the checksums of its outputs, and the answer of the action."""

    files: list[dict]
    answer: dict


@dataclass(frozen=True)
class LineWork(ShardedWork):
    """This work is a step that is cut into shards."""

    folder: Path
    step: LineStep
    shards: list[Lines]

    def inputs(self, k: int) -> list[str]:
        """Return the files with the lines of a shard."""
        return parts(self.folder / "input", k, self.step.inputs)

    def outputs(self, k: int) -> list[str]:
        """Return the files with what was made of the lines of a shard."""
        return parts(self.folder / "done", k, self.step.outputs)

    @property
    def task(self) -> Task:
        """Return what the executors do for this work."""
        own = replace(self, step=replace(self.step, join=None))  # which is done here alone
        return Task(self.step.name, "does", "done", own, do_shard)


def parts(folder: Path, k: int, files: Files) -> list[str]:
    """Return the paths that files have in a shard."""
    return [str(folder / f"{k:05d}" / Path(file).name) for file in files]


def do_lines(step: LineStep, folder: Path, cluster: Cluster, shard_lines: int) -> list[Answer]:
    """Do a step and return the answers, one of each shard; a short text is not cut.

    folder: keeps the shards until the outputs are there. A step that finds it goes on with it.
    """
    remove_rest(folder)
    if same_number_of_lines(step.inputs) <= shard_lines:
        return [step.act(step.inputs, step.outputs)]
    work = planned(step, folder, shard_lines)
    if work.pending():
        do_pending(work, cluster)
    answers = join(work)
    remove(folder)
    return answers


def do_pending(work: LineWork, cluster: Cluster) -> None:
    """Do the shards that are not done, and wait for them; one worker is this process itself."""
    if cluster.executor != "local" or (cluster.workers or 1) > 1:
        if not do(work.task, cluster, wait=True):
            wait_for_slurm(work.task)
        return
    progress = Progress(work.task)
    for k in work.pending():
        do_shard(work, k)
        progress.shard_done()


def planned(step: LineStep, folder: Path, shard_lines: int) -> LineWork:
    """Return the work as it was planned before, or cut the inputs into shards."""
    if not (folder / PLAN).exists():
        with folder_written_whole(folder, replace=True, lock=False) as partial:
            for name in ("input", "done", "logs"):
                (partial / name).mkdir()
            shards = list(cut(step.inputs, partial / "input", shard_lines))
            (partial / PLAN).write_text(json.dumps(asdict(Plan(shards))))
    path, remedy = folder / PLAN, f"remove {folder}"
    plan = as_record(Plan, read_json(path, remedy), str(path), remedy)
    return LineWork(folder, step, plan.shards)


def cut(files: Files, folder: Path, shard_lines: int) -> Iterator[Lines]:
    """Write the lines of each shard, and yield the shards."""
    start = 0
    with contextlib.ExitStack() as opened:
        texts = [opened.enter_context(open(file, "rb")) for file in files]
        for k, block in enumerate(blocks(texts, shard_lines)):
            (folder / f"{k:05d}").mkdir()
            paths = parts(folder, k, files)
            for path, lines in zip(paths, block, strict=True):
                Path(path).write_bytes(b"".join(lines))
            yield Lines(len(block[0]), start, [fingerprint(path) for path in paths])
            start += len(block[0])


def blocks(texts: Sequence[Iterator[bytes]], size: int) -> Iterator[list[list[bytes]]]:
    """Yield the next lines of all texts together.

    No block but the first one begins with a byte order mark, which a reader would take off.
    """
    ahead = [next(text, b"") for text in texts]
    while ahead[0]:
        block = [[line, *islice(text, size - 1)] for line, text in zip(ahead, texts, strict=True)]
        ahead = [next(text, b"") for text in texts]
        while any(line.startswith(codecs.BOM_UTF8) for line in ahead):
            for lines, line in zip(block, ahead, strict=True):
                lines.append(line)
            ahead = [next(text, b"") for text in texts]
        yield block


def do_shard(work: LineWork, k: int) -> None:
    """Do one shard, unless it is done."""
    if work.is_done(k):
        return
    inputs, outputs = work.inputs(k), work.outputs(k)
    for path, expected in zip(inputs, work.shards[k].files, strict=True):
        if fingerprint(path) != expected:
            raise InputError(
                f"{path}: the lines are not those that were cut for this shard; remove "
                f"{work.folder}, and run the same command again"
            )
    (work.folder / "done" / f"{k:05d}").mkdir(exist_ok=True)
    with named_as_whole(work, k), contextlib.redirect_stderr(io.StringIO()):  # without bars
        answer = work.step.act(inputs, outputs)
    with written_whole(work.marker(k)) as file:
        json.dump({"files": [fingerprint(path) for path in outputs], "answer": answer}, file)


@contextlib.contextmanager
def named_as_whole(work: LineWork, k: int) -> Iterator[None]:
    """Let an error name the file and the line of the whole text, and not those of the shard."""
    try:
        yield
    except InputError as error:
        said, start = str(error), work.shards[k].start
        pairs = [*zip(work.inputs(k), work.step.inputs, strict=True)]
        for part, whole in [*pairs, *zip(work.outputs(k), work.step.outputs, strict=True)]:
            said = re.sub(
                rf"{re.escape(part)}(?::(\d+))?",
                lambda found, whole=whole: (  # type: ignore[misc]
                    whole + (f":{start + int(found[1])}" if found[1] else "")
                ),
                said,
            )
        raise type(error)(said) from error


def join(work: LineWork) -> list[Answer]:
    """Make the outputs from those of all shards, each of which must be as it was written.

    The markers of damaged shards are removed, so that the next run does them again.
    """
    markers = [marker_of(work, k) for k in range(len(work.shards))]
    if damaged := [k for k, marker in enumerate(markers) if marker is None]:
        for k in damaged:
            work.marker(k).unlink(missing_ok=True)
        raise InputError(
            f"{work.marker(damaged[0]).with_suffix('')}: what was made of this shard is missing, "
            "or was damaged after it was written; run the same command again, which makes it anew"
        )
    every = [work.outputs(k) for k in range(len(work.shards))]
    if work.step.join:
        work.step.join(every)
    elif work.step.outputs:
        with replaced_together(work.step.outputs) as partials:
            for partial, paths in zip(partials, zip(*every, strict=True), strict=True):
                with open(partial, "wb") as joined:
                    for path in paths:
                        joined.write(Path(path).read_bytes())
    return [marker.answer for marker in markers if marker]


def marker_of(work: LineWork, k: int) -> Done | None:
    """Return the marker of a shard, or None if its files are not as they were written."""
    path = work.marker(k)
    try:
        marker = as_record(Done, read_json(path, ""), str(path), "")
        found = [fingerprint(output) for output in work.outputs(k)]
    except (OSError, InputError):
        return None
    return marker if found == marker.files else None


def discard(folder: Path) -> None:
    """Remove the shards of a step that will not go on, unless Slurm is working on them."""
    if folder.exists():
        Jobs.of(folder / "logs").refuse_if_queued("they work with other choices")
        remove(folder)
