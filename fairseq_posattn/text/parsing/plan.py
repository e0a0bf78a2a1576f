"""Cut a source, and the trees that were given for it, into the shards of a parse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import folder_written_whole, is_used
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.parsing.records import Shard, checksum
from fairseq_posattn.text.parsing.sharded_parse import (
    ShardedParse,
    load,
    parts_folder,
    read_plan,
    suffix,
)
from fairseq_posattn.trees.conllu import read_blocks
from fairseq_posattn.work.slurm_jobs import TASK
from fairseq_posattn.work.work import PLAN, remove


def plan(
    source: str, out: str, settings: ParserSettings, shard_lines: int, trees: str | None = None
) -> ShardedParse:
    """Return the parse as it was planned before, or plan it and cut its shards."""
    folder = parts_folder(out)
    suffix(out)
    choices = {
        "source": fingerprint(source),
        "parser": settings.describe(),
        "shard_lines": shard_lines,
        "trees": {"path": trees, **fingerprint(trees)} if trees else None,
    }
    if (folder / PLAN).exists():
        work = load(folder, source, out, settings)
        difference = differs(folder, choices)
        if difference is None:
            return work
        if is_begun(work):
            raise InputError(
                f"{folder}: this parse was begun with other choices ({difference}); "
                "run the same command as before, or remove the folder and begin anew"
            )
        remove(folder)
    elif is_used(folder):
        raise InputError(f"{folder}: the folder has no {PLAN}; remove it and begin anew")
    with folder_written_whole(folder, lock=False) as partial:
        for name in ("input", "done", "logs"):
            (partial / name).mkdir()
        shards = list(cut_source(source, partial / "input", shard_lines))
        if trees:
            shards = cut_trees(trees, partial / "input", shards)
        about = {**choices, "shards": [asdict(s) for s in shards]}
        (partial / PLAN).write_text(json.dumps(about, indent=1))
    return load(folder, source, out, settings)


def differs(folder: Path, choices: dict) -> str | None:
    """Return the first choice that is not that of the plan, with both values, or None."""
    found = read_plan(folder)
    return next(
        (
            f"{name}: {_difference(found.get(name), now)}"
            for name, now in choices.items()
            if found.get(name) != now
        ),
        None,
    )


def is_begun(work: ShardedParse) -> bool:
    """Return whether a shard is done, or Slurm may be working on one."""
    return len(work.pending()) < len(work.shards) or (work.logs / TASK).exists()


def _difference(before, now) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        changed = [key for key in now if before.get(key) != now[key]]
        return ", ".join(f"{key} was {before.get(key)}, is {now[key]}" for key in changed)
    return f"was {before}, is {now}"


def cut_source(source: str, folder: Path, shard_lines: int) -> Iterator[Shard]:
    """Write the lines of each shard to a file, and yield the shards.

    Each file gets a byte order mark, so that a mark that begins its first line is not lost.
    """
    lines = read_lines(source)
    start = 0
    for k in range(10**9):
        part = list(islice(lines, shard_lines))
        if not part:
            break
        with open(folder / f"{k:05d}.txt", "w", encoding="utf-8-sig", newline="\n") as file:
            file.writelines(line + "\n" for line in part)
        yield Shard(len(part), start, checksum(part))
        start += len(part)
    if not start:
        raise InputError(f"{source}: the file is empty; name one with text")


def cut_trees(trees: str, folder: Path, shards: list[Shard]) -> list[Shard]:
    """Write as many trees for each shard as it has lines, and return the shards with checksums."""
    blocks = read_blocks(trees)
    found = 0
    cut = []
    for k, shard in enumerate(shards):
        path = folder / f"{k:05d}.conllu"
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            for given in islice(blocks, shard.lines):
                file.write(f"{given.line}\n" + "\n".join(given.lines) + "\n\n")
                found += 1
        cut.append(replace(shard, trees_sha256=fingerprint(str(path))["sha256"]))
    found += sum(1 for _ in blocks)
    lines = sum(shard.lines for shard in shards)
    if found != lines:
        raise InputError(
            f"{trees}: the file has {found} trees for {lines} lines of text; name a file with one "
            "for each line"
        )
    return cut
