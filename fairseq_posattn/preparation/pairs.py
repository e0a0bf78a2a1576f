"""Rewrite and filter sentence pairs, and distribute them over shards."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_together, written_whole
from fairseq_posattn.files.files import count_lines, read_lines, same_number_of_lines
from fairseq_posattn.files.numbers import plain_numbers
from fairseq_posattn.files.terminal import progress, say
from fairseq_posattn.jobs.lines import Part
from fairseq_posattn.preparation.job import Limits
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.projection import words_of_pieces


def rewrite_lines(change: Callable[[str], str], part: Part) -> None:
    with written_whole(part.outputs[0]) as file:
        for line in progress(read_lines(part.inputs[0])):
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


def align_lines(separator: str, part: Part) -> dict:
    """Convert word alignments to piece alignments; return how many lines contain alignments.

    separator: the suffix of all pieces except the last piece of a word.
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
    """Raise an InputError if a file contains no alignments; fairseq cannot read such a file."""
    if not any(answer["aligned"] for answer in answers):
        raise InputError(
            f"{given}: no sentence has an alignment; write alignments such as 0-0 2-1, or leave "
            "out --alignments"
        )


def pieces_of_words(pieces: Sequence[str], separator: str, where: str) -> list[range]:
    """Return the range of piece indices for each word."""
    try:
        ends = list(accumulate(words_of_pieces(pieces, separator)[1]))
    except TreeError as error:
        raise InputError(f"{where}: {error}") from error
    return list(map(range, [0, *ends], ends))


def aligned_words(pair: str, sides: Sequence[list[range]], where: str) -> list[range]:
    """Return the ranges of piece indices of the two words in an alignment such as 3-1.

    Raise an InputError if the alignment is invalid.
    """
    numbers = plain_numbers(pair.split("-"))
    if numbers is None or len(numbers) != 2:
        raise InputError(
            f"{where}: '{pair}' is not an alignment; write a pair of word indices, counted "
            "from 0, such as 3-1"
        )
    for side, words, n in zip(("source", "target"), sides, numbers, strict=True):
        if n >= len(words):
            raise InputError(
                f"{where}: '{pair}' is out of range, because the {side} has {len(words)} words; "
                "count the words of the tokenised text from 0"
            )
    return [words[n] for words, n in zip(sides, numbers, strict=True)]


def say_what_was_kept(
    split: str, first: str, limits: Limits | None, answers: Sequence[dict]
) -> None:
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
            f"{first}: no pair is within {limits} (dropped by their numbers of pieces: {rules}); "
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
