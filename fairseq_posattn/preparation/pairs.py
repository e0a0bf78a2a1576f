"""Rewrite and filter sentence pairs, and deal them out to shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, product
from pathlib import Path
from typing import TypeVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_together, written_whole
from fairseq_posattn.io.files import count_lines, read_lines, same_number_of_lines
from fairseq_posattn.io.numbers import plain_numbers
from fairseq_posattn.io.progress import progress, say
from fairseq_posattn.preparation.job import Limits
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.projection import words_of_pieces
from fairseq_posattn.work.lines import Part

T = TypeVar("T")


def rewrite(path: str, out: str, change: Callable[[str], str]) -> None:
    """Write each line of a file as `change` returns it."""
    with written_whole(out) as file:
        for line in progress(read_lines(path)):
            file.write(change(line) + "\n")


def rewrite_lines(change: Callable[[str], str], part: Part) -> None:
    """Do `rewrite` as a step from line to line."""
    rewrite(part.inputs[0], part.outputs[0], change)


def filter_lines(limits: Limits | None, part: Part) -> dict:
    """Write the lines of parallel files whose first two are within the limits, or all lines.

    Return the numbers of lines, of those that were kept, and of those that each rule dropped.
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


def align_lines(separator: str, part: Part) -> dict:
    """Write alignments of pieces for those of words, with pieces that `separator` joins.

    Return how many there are.
    """
    given, lines = part.inputs[0], 0
    with written_whole(part.outputs[0]) as file:
        for number, (line, *texts) in enumerate(rows(part.inputs), start=1):
            where = f"{given}:{number}"
            sides = [pieces_of_words(text.split(), separator, where) for text in texts]
            found = [
                f"{source}-{target}"
                for pair in line.split()
                for source, target in product(*aligned_words(pair, sides, where))
            ]
            file.write(" ".join(found) + "\n")
            lines += bool(found)
    return {"aligned": lines}


def refuse_no_alignment(given: str, answers: Sequence[dict]) -> None:
    """Refuse a file of alignments that has none, which fairseq cannot read."""
    if not any(answer["aligned"] for answer in answers):
        raise InputError(
            f"{given}: no sentence has an alignment; write them as 0-0 2-1, or leave out "
            "--alignments"
        )


def pieces_of_words(pieces: Sequence[str], separator: str, where: str) -> list[range]:
    """Return the numbers of the pieces of each word."""
    try:
        ends = list(accumulate(words_of_pieces(pieces, separator)[1]))
    except TreeError as error:
        raise InputError(f"{where}: {error}") from error
    return list(map(range, [0, *ends], ends))


def aligned_words(pair: str, sides: Sequence[list[range]], where: str) -> list[range]:
    """Return the pieces of both words of an alignment such as 3-1, or refuse it."""
    numbers = plain_numbers(pair.split("-"))
    if numbers is None or len(numbers) != 2:
        raise InputError(f"{where}: '{pair}' is no alignment; write it as 3-1, counted from 0")
    for side, words, n in zip(("source", "target"), sides, numbers, strict=True):
        if n >= len(words):
            raise InputError(
                f"{where}: '{pair}', but the {side} has {len(words)} words; count the words of the "
                "tokenised text from 0"
            )
    return [words[n] for words, n in zip(sides, numbers, strict=True)]


def say_what_was_kept(
    split: str, first: str, limits: Limits | None, answers: Sequence[dict]
) -> None:
    """Say how many pairs of a split `filter_lines` has kept, and how many each rule dropped.

    Refuse to go on with none.
    """
    lines, kept = (sum(answer[what] for answer in answers) for what in ("lines", "kept"))
    dropped: Counter[str] = Counter()
    for answer in answers:
        dropped.update(answer.get("dropped", {}))  # shards of an earlier version do not say it
    rules = ", ".join(f"{count:,} {rule}" for rule, count in dropped.most_common())
    if not kept:
        raise InputError(
            f"{first}: no pair is within the limits {limits}; dropped were, by their pieces, "
            f"{rules}; change --min-length, --max-length, --max-source-length or --max-ratio"
        )
    reasons = f"; dropped were, by their pieces, {rules}" if rules else ""
    say(f"{split}: {kept:,} of {lines:,} pairs were kept{reasons}")


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


def write_sample(path: str, out: str | Path, count: int, lines: int | None = None) -> None:
    """Write so many lines of a file, which lie evenly in it, or all if there are fewer.

    lines: how many the file has, if that is known.
    """
    with written_whole(out) as file:
        for line in evenly(read_lines(path), count, lines or count_lines(path)):
            file.write(line + "\n")


def evenly(items: Iterable[T], count: int, of: int) -> Iterator[T]:
    """Yield so many items, evenly chosen from as many as there are."""
    chosen = 0
    for number, item in enumerate(items):
        if number * count // of >= chosen and chosen < count:
            chosen += 1
            yield item
