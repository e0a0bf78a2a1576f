"""Check the shards of a parse and join them to one file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import replaced_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.lock import locked
from fairseq_posattn.text.parsing import records
from fairseq_posattn.text.parsing.records import Digest, checksum
from fairseq_posattn.text.parsing.results import Result, made_from
from fairseq_posattn.text.parsing.sharded_parse import ShardedParse, read_plan
from fairseq_posattn.work.work import PLAN


def join(work: ShardedParse) -> Result:
    """Join all shards, each checked, to the result, and write beside it what it was made from."""
    plan = read_plan(work.folder)
    if fingerprint(work.source) != plan["source"]:
        raise InputError(
            f"{work.source}: the file changed while it was parsed; remove {work.folder} and begin "
            "anew"
        )
    check_cut(work)
    notes = notes_of_shards(work)
    with replaced_whole(work.out) as partial, open(partial, "wb") as joined:
        written = copy([work.output(k) for k in range(len(work.shards))], joined)
    source, trees, parser = made_from(plan)
    result = Result(written, work.lines, source, trees, parser, notes)
    result.save(work.out)
    return result


def join_once(work: ShardedParse) -> None:
    """Join all shards, unless another run wrote the result before this job began."""
    with locked(work.out, wait=True):
        is_joined = not (work.folder / PLAN).exists() and Path(work.out).exists()
        if not is_joined:
            join(work)


def copy(paths: Sequence[Path], joined: BinaryIO) -> Digest:
    """Write the files one after the other, and return size and checksum of the result.

    This is correct for compressed files, too, because compressed streams may follow each other.
    """
    digest, size = hashlib.sha256(), 0
    for path in paths:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                size += joined.write(chunk)
                digest.update(chunk)
    return Digest(size, digest.hexdigest())


def check_cut(work: ShardedParse) -> None:
    """Refuse a plan whose shards are not all lines of the source in their order."""
    lines = read_lines(work.source)
    for k, shard in enumerate(work.shards):
        if checksum(list(islice(lines, shard.lines))) != shard.sha256:
            raise InputError(
                f"{work.folder / PLAN}: shard {k} does not hold the lines that {work.source} has "
                f"there; remove {work.folder} and begin anew"
            )
    if next(lines, None) is not None:
        raise InputError(
            f"{work.folder / PLAN}: {work.source} has more lines than its shards; "
            f"remove {work.folder} and begin anew"
        )


def notes_of_shards(work: ShardedParse) -> list:
    """Return the notes of all shards, after a check that the shards are as they were written.

    The markers of damaged shards are removed, so that the next run parses them again.
    """
    notes, damaged = [], []
    for k in range(len(work.shards)):
        try:
            notes += notes_of_shard(work, k)
        except (OSError, InputError):
            damaged.append(k)
    for k in damaged:
        work.marker(k).unlink(missing_ok=True)
    if damaged:
        others = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        raise InputError(
            f"{work.output(damaged[0])}{others}: the file is missing, or was damaged after it was "
            "written; run the same command again, which parses these lines anew"
        )
    return notes


def notes_of_shard(work: ShardedParse, k: int) -> list:
    """Return the notes of a shard, which must be as it was written."""
    done = records.read_marker(work.marker(k))
    written = {"bytes": done.bytes, "sha256": done.sha256}
    if fingerprint(str(work.output(k))) != written or done.lines != work.shards[k].lines:
        raise InputError("the shard is not as it was written")
    return done.notes
