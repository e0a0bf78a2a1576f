"""Parsers: lines -> parsed lines, one for each, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.alignment import match
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.conllu_writer import plain_line
from fairseq_posattn.trees.sentence import Sentence
from fairseq_posattn.trees.whitespace import shortened

Line = TypeVar("Line", str, Sentence, contravariant=True)  # raw, or tokenised already


class ParserFailure(Exception):
    """A line that the parser cannot do."""


class Parser(Protocol[Line]):
    def words(self, line: Line) -> Sentence:
        """The words of a line that could not be parsed, without a tree."""

    def parse(self, lines: Sequence[Line]) -> list[Sentence]:
        """One for each line; any exception means that one of the lines cannot be parsed."""


def parse_safely(
    parser: Parser[Line], lines: Sequence[Line], where: Callable[[int], str], on_failure: str
) -> list[Sentence]:
    """All lines; those that make the parser fail are found by halving, and stop the work or get a
    flat tree."""
    try:
        return checked(lines, parser.parse(lines))
    except Exception as error:
        if len(lines) == 1:
            return [_failed(parser, lines[0], where(0), on_failure, error)]
    half: int = len(lines) // 2
    return [
        *parse_safely(parser, lines[:half], where, on_failure),
        *parse_safely(parser, lines[half:], lambda k: where(k + half), on_failure),
    ]


def checked(lines: Sequence[Line], parsed: list[Sentence]) -> list[Sentence]:
    if len(parsed) != len(lines):
        raise ParserFailure(f"{len(parsed)} results for {len(lines)} lines")
    for line, result in zip(lines, parsed, strict=True):
        match(str(line), result.tokens, "the parser's words")
        if fault := tree_fault(result.parents or []):
            raise ParserFailure(fault.what)
    return parsed


def _failed(
    parser: Parser[Line], line: Line, where: str, on_failure: str, error: Exception
) -> Sentence:
    """A flat tree for a line that the parser cannot do, or an error, as --on-failure says."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    begin = shortened(plain_line(str(line)), 100)
    if on_failure == "stop":
        raise InputError(
            f"{where}: the parser failed ({reason}) on '{begin}'; "
            "with --on-failure flat (in translation: --missing-tree flat) the same command goes on "
            "and gives such lines flat trees"
        ) from error
    return parser.words(line).flat(f"the parser failed ({reason}): flat tree")


def given_trees(
    lines: Sequence[str], given: Iterator[tuple[str, Sentence]], where: Callable[[int], str]
) -> list[Sentence]:
    """Trees made elsewhere, with their places, checked to be those of the lines."""
    found = []
    for k, line in enumerate(lines):
        place, parsed = next(given)
        match(line, parsed.tokens, f"{where(k)}, {place}")
        found.append(parsed)
    return found
