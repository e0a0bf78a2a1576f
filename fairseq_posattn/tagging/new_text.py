"""Read new text for the tagger, and write the text with its tags."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fairseq_posattn.errors import InputError
from fairseq_posattn.tagging.sentences import TAG_COLUMNS
from fairseq_posattn.trees.conllu import FORM, is_word

BOM = "\ufeff"
WORD_LINE = re.compile(r"\d+([-.]\d+)?(\t[^\t]*){4}")  # also matches damaged lines
COMMENT = re.compile(r"# ?(newdoc|newpar|sent_id|text|global\.columns)\b")
FORMATS = {"pairs": "{word}_{tag}", "tags": "{tag}"}


class Untagged(Protocol):
    """A sentence of new text."""

    words: list[str]

    def tagged(self, tags: Sequence[str]) -> str:
        """Return the output text with tags."""


@dataclass
class TextLine:
    """A line of plain text, with words separated by spaces or tabs."""

    words: list[str]
    pattern: str

    def tagged(self, tags: Sequence[str]) -> str:
        pairs = zip(self.words, tags, strict=True)
        return " ".join(self.pattern.format(word=word, tag=tag) for word, tag in pairs) + "\n"


@dataclass
class ConlluLines:
    """The lines of a CoNLL-U sentence, including the blank lines after it.

    rows: the indices of the lines that contain words.
    column: the index of the tag column; all other columns remain unchanged.
    """

    lines: list[str]
    rows: list[int]
    words: list[str]
    column: int

    def tagged(self, tags: Sequence[str]) -> str:
        lines = list(self.lines)
        for row, tag in zip(self.rows, tags, strict=True):
            columns = lines[row].split("\t")
            columns[self.column] = tag
            lines[row] = "\t".join(columns)
        return "".join(lines)


def read_text(
    lines: Iterable[bytes], source: str, column: str, format: str | None
) -> Iterator[Untagged]:
    """Yield the sentences of a text, in CoNLL-U or with words separated by spaces.

    source: the name of the file, for messages.
    """
    decoded = decode(lines, source)
    head = []
    for line in decoded:
        head.append(line)
        if line.strip() and not is_comment(line):
            break
    whole = itertools.chain(head, decoded)
    if is_conllu(head):
        if format:
            raise InputError(
                f"{source}: --format applies to plain text, but the text is CoNLL-U, which keeps "
                "its format; omit --format"
            )
        return read_conllu_text(whole, source, TAG_COLUMNS[column])
    return read_plain_text(whole, FORMATS[format or "pairs"])


def is_comment(line: str) -> bool:
    """Return whether a line would be a comment in CoNLL-U."""
    return line.lstrip(BOM).startswith("#")


def is_conllu(head: list[str]) -> bool:
    """Return whether a text is CoNLL-U.

    head: the lines of the text up to the first one that is not a comment. That line must have the
        form of a CoNLL-U word. If all lines are comments, they must be standard CoNLL-U comments.
    """
    if any(WORD_LINE.match(line.lstrip(BOM)) for line in head):
        return True
    return bool(head) and all(COMMENT.match(line.lstrip(BOM)) for line in head if line.strip())


def decode(lines: Iterable[bytes], source: str) -> Iterator[str]:
    """Decode lines; raise an InputError at the first line that is not UTF-8."""
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{source}:{number}: the line is not UTF-8 ({error.reason}); convert the text, "
                "for example with iconv"
            ) from error


def read_plain_text(lines: Iterable[str], pattern: str) -> Iterator[TextLine]:
    """Yield one sentence for each line of plain text.

    pattern: the format of tagged words.
    """
    for number, line in enumerate(lines, start=1):
        line = line.lstrip(BOM) if number == 1 else line
        yield TextLine([word for word in re.split(r"[ \t\r\n]+", line) if word], pattern)


def read_conllu_text(lines: Iterable[str], source: str, column: int) -> Iterator[ConlluLines]:
    """Yield the sentences of a CoNLL-U text.

    column: the index of the column to which the tags are written.
    """
    sentence, ended = ConlluLines([], [], [], column), False
    for number, line in enumerate(lines, start=1):
        blank = not line.strip("\r\n")
        if ended and not blank:
            yield sentence
            sentence = ConlluLines([], [], [], column)
        ended = blank
        if not blank and not is_comment(line):
            columns = line.lstrip(BOM).split("\t") if number == 1 else line.split("\t")
            if is_word(columns, len(sentence.words) + 1, f"{source}:{number}"):
                sentence.rows.append(len(sentence.lines))
                sentence.words.append(columns[FORM])
        sentence.lines.append(line)
    if sentence.lines:
        yield sentence
