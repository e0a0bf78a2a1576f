"""Rewrite and filter sentence pairs, and deal them out to shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_together, written_whole
from fairseq_posattn.io.files import read_lines, same_number_of_lines
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.preparation.job import Limits


def rewrite(path: str, out: str, change: Callable[[str], str]) -> None:
    """Write each line of a file as `change` returns it."""
    with written_whole(out) as file:
        for line in progress(read_lines(path)):
            file.write(change(line) + "\n")


def filter_lines(
    files: Sequence[str], outputs: Sequence[str], limits: Limits | None, split: str
) -> None:
    """Write the lines of parallel files whose first two are within the limits, or all lines."""
    lines = kept = 0
    with written_together(outputs) as written:
        for row in rows(files):
            lines += 1
            if limits is None or limits.admit(len(row[0].split()), len(row[1].split())):
                kept += 1
                for file, line in zip(written, row, strict=True):
                    file.write(line + "\n")
        if not kept:
            raise InputError(
                f"{files[0]}: no pair is within the limits {limits}; change --min-length, "
                "--max-length, --max-source-length or --max-ratio"
            )
    say(f"{split}: {kept:,} of {lines:,} pairs were kept")


def share_out(files: Sequence[str], shards: Sequence[Sequence[str]]) -> None:
    """Deal the lines of parallel files out to the shards, in turn."""
    with written_together([path for of_shard in shards for path in of_shard]) as written:
        for number, row in enumerate(rows(files)):
            start = number % len(shards) * len(files)
            for file, line in zip(written[start : start + len(files)], row, strict=True):
                file.write(line + "\n")


def rows(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of parallel files together."""
    same_number_of_lines(files)
    return zip(*(read_lines(path) for path in files), strict=True)
