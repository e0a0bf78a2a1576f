"""Parsers: lines -> parsed lines, one for each, in order."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Protocol

from fairseq_posattn.files import InputError
from fairseq_posattn.io.records import at_least, one_of
from fairseq_posattn.parsing.parsed import ParsedLine, plain_line
from fairseq_posattn.trees.alignment import match
from fairseq_posattn.trees.checks import SEVERAL_ROOTS, tree_fault
from fairseq_posattn.trees.forms import shortened

LONG_LINES = ("cut", "skip")
ON_FAILURE = ("stop", "flat")
PARSERS = ("stanza", "conllu")
PARSER_THREADS = "POSATTN_PARSER_THREADS"  # of one process, on CPUs; set where it has several
REMEDIES = ("on_failure", "several_roots")  # for lines that would be an error without them


@dataclass(frozen=True)
class ParserSettings:
    """Everything that a tree depends on; kept with what was parsed."""

    parser: str = field(default="stanza", metadata=one_of(*PARSERS))
    lang: str = "en"
    model_dir: str | None = None
    package: str = "default"
    tokenized: bool = False
    max_words: int = field(default=250, metadata=at_least(1))
    long_lines: str = field(default="cut", metadata=one_of(*LONG_LINES))
    on_failure: str = field(default="stop", metadata=one_of(*ON_FAILURE))
    several_roots: str = field(default="error", metadata=one_of(*SEVERAL_ROOTS))

    def describe(self) -> dict:
        """What the trees of a line that can be parsed depend on."""
        return {name: value for name, value in asdict(self).items() if name not in REMEDIES}


class ParserFailure(Exception):
    """A line that the parser cannot do."""


class Parser(Protocol):
    def words(self, line: str) -> ParsedLine:
        """The words of a line that could not be parsed, without a tree."""

    def parse(self, lines: Sequence[str]) -> list[ParsedLine]:
        """One for each line; any exception means that one of the lines cannot be parsed."""


@lru_cache(maxsize=1)
def load_parser(settings: ParserSettings) -> Parser:
    """Loaded once in each process."""
    from fairseq_posattn.parsing.stanza_parser import StanzaParser

    parser = StanzaParser(settings)
    gc.freeze()  # a model is no garbage: not to be looked through again and again
    return parser


def parse_safely(
    parser: Parser, lines: Sequence[str], where: Callable[[int], str], on_failure: str
) -> list[ParsedLine]:
    """All lines; those that make the parser fail are found by halving, and stop the work or get a
    flat tree."""
    try:
        return checked(lines, parser.parse(lines))
    except Exception as error:
        if len(lines) == 1:
            return [_failed(parser, lines[0], where(0), on_failure, error)]
    half = len(lines) // 2
    return [
        *parse_safely(parser, lines[:half], where, on_failure),
        *parse_safely(parser, lines[half:], lambda k: where(k + half), on_failure),
    ]


def checked(lines: Sequence[str], parsed: list[ParsedLine]) -> list[ParsedLine]:
    if len(parsed) != len(lines):
        raise ParserFailure(f"{len(parsed)} results for {len(lines)} lines")
    for line, result in zip(lines, parsed, strict=True):
        match(text_of(line), result.tokens, "the parser's words")
        if fault := tree_fault(result.parents or []):
            raise ParserFailure(fault.what)
    return parsed


def _failed(parser: Parser, line: str, where: str, on_failure: str, error: Exception) -> ParsedLine:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    begin = shortened(plain_line(text_of(line)), 100)
    if on_failure == "stop":
        raise InputError(
            f"{where}: the parser failed ({reason}) on '{begin}'; "
            "with --on-failure flat (in translation: --missing-tree flat) the same command goes on "
            "and gives such lines flat trees"
        ) from error
    return parser.words(line).flat(f"the parser failed ({reason}): flat tree")


def text_of(line: str | ParsedLine) -> str:
    """Lines may be tokenised already."""
    return line if isinstance(line, str) else " ".join(line.tokens)


def given_trees(
    lines: Sequence[str], given: Iterator[tuple[str, ParsedLine]], where: Callable[[int], str]
) -> list[ParsedLine]:
    """Trees made elsewhere, with their places, checked to be those of the lines."""
    found = []
    for k, line in enumerate(lines):
        place, parsed = next(given)
        match(line, parsed.tokens, f"{where(k)}, {place}")
        found.append(parsed)
    return found
