"""Parse each line into one tree, in order, even if the parser fails on some lines."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.conllu import plain_line
from fairseq_posattn.trees.projection import match
from fairseq_posattn.trees.sentence import Sentence, shortened

Line = TypeVar("Line", str, Sentence)  # a raw line, or a tokenised one


class ParserFailure(Exception):
    """Raised if the parser cannot parse a line."""


def parse_safely(
    parse: Callable[[Sequence[Line]], list[Sentence]],
    words: Callable[[Line], Sentence],
    lines: Sequence[Line],
    where: Callable[[int], str],
    on_failure: str,
) -> list[Sentence]:
    """Parse all lines; if the parser fails, find the responsible lines by bisection.

    parse: a function that returns one tree per line. Any exception means that a line cannot be
        parsed.
    words: a function that returns the words of a line that cannot be parsed.
    where: a function that describes the location of the line with a given index, for messages.
    on_failure: "stop" raises an InputError for a line that cannot be parsed, and "flat" creates a
        flat tree.
    """
    try:
        return checked(lines, parse(lines))
    except Exception as error:
        if len(lines) == 1:
            return [_failed(words, lines[0], where(0), on_failure, error)]
    half: int = len(lines) // 2
    return [
        *parse_safely(parse, words, lines[:half], where, on_failure),
        *parse_safely(parse, words, lines[half:], lambda k: where(k + half), on_failure),
    ]


def checked(lines: Sequence[Line], parsed: list[Sentence]) -> list[Sentence]:
    """Return `parsed`; raise an exception if a tree is invalid or does not match its line."""
    if len(parsed) != len(lines):
        raise ParserFailure(f"it returned {len(parsed)} results for {len(lines)} lines")
    for line, result in zip(lines, parsed, strict=True):
        match(str(line), result.tokens, "the parser's words")
        if fault := tree_fault(result.parents or []):
            raise ParserFailure(fault.what)
    return parsed


def _failed(
    words: Callable[[Line], Sentence],
    line: Line,
    where: str,
    on_failure: str,
    error: Exception,
) -> Sentence:
    """Return a flat tree for a line that cannot be parsed, or raise an InputError."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    begin = shortened(plain_line(str(line)), 100)
    if on_failure == "stop":
        raise InputError(
            f"{where}: the parser failed ({reason}) on '{begin}'; run the same command with "
            "--on-failure flat (in translation: --missing-tree flat) to resume and give such lines "
            "flat trees"
        ) from error
    return words(line).flat(f"the parser failed ({reason}), so the line has a flat tree")


def given_trees(
    lines: Sequence[str], given: Iterator[tuple[str, Sentence]], where: Callable[[int], str]
) -> list[Sentence]:
    """Return the given trees; raise a TreeError unless each tree matches its line.

    given: yields for each line the location of its tree (FILE:LINE) and the tree itself.
    """
    found = []
    for k, line in enumerate(lines):
        place, parsed = next(given)
        match(line, parsed.tokens, f"{where(k)}, {place}")
        found.append(parsed)
    return found
