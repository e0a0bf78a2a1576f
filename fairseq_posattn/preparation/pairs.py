"""Rewrite and filter sentence pairs, and distribute them over shards."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_together, written_whole
from fairseq_posattn.files.files import count_lines, read_lines, same_number_of_lines
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.lines import Part
from fairseq_posattn.preparation.job import Limits


def rewrite_lines(change: Callable[[str], str], part: Part) -> None:
    with written_whole(part.outputs[0]) as file:
        for line in Progress(read_lines(part.inputs[0])):
            file.write(change(line) + "\n")


def filter_lines(limits: Limits | None, part: Part) -> dict:
    """Copy the parallel lines whose source and target (the first two files) are within the limits.

    If `limits` is None, copy all lines. Return how many lines were read and kept, and how many each
    limit removed.
    """
    lines = kept = 0
    dropped: Counter[str] = Counter()
    with written_together(part.outputs) as written:
        for row in rows(part.inputs):
            lines += 1
            if limits and (rule := limits.broken(len(row[0].split()), len(row[1].split()))):
                dropped[rule] += 1
                continue
            kept += 1
            for file, line in zip(written, row, strict=True):
                file.write(line + "\n")
    return {"lines": lines, "kept": kept, "dropped": dropped}


def say_what_was_kept(split: str, first: str, answers: Sequence[dict]) -> None:
    """Log how many pairs of a split remain, and how many each limit has removed.

    Raise an InputError if no pair remains.
    """
    lines, kept = (sum(answer[what] for answer in answers) for what in ("lines", "kept"))
    dropped: Counter[str] = Counter()
    for answer in answers:
        dropped.update(answer["dropped"])
    rules = ", ".join(f"{count:,} {rule}" for rule, count in dropped.most_common())
    if not kept:
        raise InputError(
            f"{first}: no pair is within the limits (dropped by their numbers of pieces: {rules}); "
            "change --min-length, --max-length, --max-source-length or --max-ratio"
        )
    reasons = f"; dropped by their numbers of pieces: {rules}" if rules else ""
    say(f"{split}: {kept:,} of {lines:,} pairs were kept{reasons}")


def share_out(files: Sequence[str], shards: Sequence[Sequence[str]]) -> None:
    """Distribute the lines of parallel files over shards in turn (round-robin)."""
    with written_together([path for of_shard in shards for path in of_shard]) as written:
        for number, row in enumerate(rows(files)):
            start = number % len(shards) * len(files)
            for file, line in zip(written[start : start + len(files)], row, strict=True):
                file.write(line + "\n")


def rows(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    same_number_of_lines(files)
    return zip(*(read_lines(path) for path in files), strict=True)


def write_sample(path: str, out: str | Path, count: int) -> None:
    """Write `count` evenly spaced lines of a file, or all lines if there are fewer."""
    chosen, lines = 0, count_lines(path)
    with written_whole(out) as file:
        for number, line in enumerate(read_lines(path)):
            if number * count // lines >= chosen and chosen < count:
                chosen += 1
                file.write(line + "\n")
