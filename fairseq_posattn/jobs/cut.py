"""Split the inputs of a step into shards, and store the plan so that later runs can resume."""

from __future__ import annotations

import codecs
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import folder_written_whole, is_used, leftovers, temp_name
from fairseq_posattn.files.checksums import fingerprint
from fairseq_posattn.jobs.lines import PLAN, TASK, LineStep, LineWork, Shard, parts
from fairseq_posattn.jobs.made import Made


def planned(step: LineStep, folder: Path, shard_lines: int) -> LineWork:
    """Return the plan of an earlier run, or split the inputs into shards if there is none.

    For a step with a record, raise an InputError if an earlier run with other options has finished
    shards or submitted them to Slurm.
    """
    key = {**step.key(), "shard_lines": shard_lines} if step.record else None
    if (folder / PLAN).exists():
        work = stored_plan(step, folder)
        if key is None or work.key == key:
            return work
        if len(work.pending()) < len(work.shards) or (work.logs / TASK).exists():
            raise InputError(
                f"{folder}: this {step.name} was started with other options "
                f"({difference(work, key or {})}); run the same command as before, or remove the "
                "folder to start again"
            )
        remove(folder)
    elif is_used(folder):
        raise InputError(
            f"{folder}: the folder contains no {PLAN}; remove the folder to start again"
        )
    with folder_written_whole(folder, lock=False) as partial:
        for name in ("input", "done", "logs"):
            (partial / name).mkdir()
        shards = list(cut(step, partial / "input", shard_lines))
        Made(key, [], {"shards": [asdict(shard) for shard in shards]}).write(partial / PLAN)
    return LineWork(folder, step, shards, key)


def stored_plan(step: LineStep, folder: Path) -> LineWork:
    plan = Made.read(folder / PLAN)
    if plan is None or not plan.answer:
        raise InputError(
            f"{folder / PLAN}: the file is damaged or was written before version 0.3.0; remove "
            f"{folder}"
        )
    return LineWork(folder, step, [Shard(**s) for s in plan.answer["shards"]], plan.key)


def difference(work: LineWork, now: dict[str, Any]) -> str:
    """Describe the first option that differs from the plan, with its old and new values."""
    old = work.key or {}  # the shards of a preparation have no key
    name = next(name for name in {**now, **old} if old.get(name) != now.get(name))
    before, value = old.get(name), now.get(name)
    if name == "files":
        others = [
            path
            for path, a, b in zip(work.step.inputs, before or [], value or [], strict=False)
            if a != b
        ]
        return f"{others[0]} has changed" if others else "other files"
    if isinstance(before, dict) and isinstance(value, dict):
        pairs = [(key, before.get(key), value.get(key)) for key in {**value, **before}]
        return f"{name}: " + ", ".join(f"{key} was {a}, is {b}" for key, a, b in pairs if a != b)
    return f"{name}: was {before}, is {value}"


def cut(step: LineStep, folder: Path, shard_lines: int) -> Iterator[Shard]:
    """Write the input files of each shard, and yield the shards."""
    start = 0
    for k, block in enumerate(blocks([step.read(path) for path in step.inputs], shard_lines)):
        (folder / f"{k:05d}").mkdir()
        paths = parts(folder, k, step.inputs)
        for path, lines in zip(paths, block, strict=True):
            Path(path).write_bytes(b"".join(lines))
        yield Shard(len(block[0]), start, [fingerprint(path) for path in paths])
        start += len(block[0])


def blocks(texts: Sequence[Iterator[bytes]], size: int) -> Iterator[list[list[bytes]]]:
    """Yield blocks of at least `size` parallel lines; the last block may be shorter.

    A line that starts with a byte order mark is added to the previous block, because readers remove
    such a mark at the start of a file.
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


def remove(folder: Path) -> None:
    """Remove a folder of shards atomically: it is renamed before its files are deleted.

    Temporary folders of runs that were killed in `remove` or `planned` are removed, too.
    """
    folder = Path(os.path.realpath(folder))
    if folder.exists():
        os.rename(folder, temp_name(folder))
    for left in leftovers(folder):
        shutil.rmtree(left, ignore_errors=True)
