"""Dependency trees from CoNLL-U (https://universaldependencies.org/format.html).

Only ID, FORM and HEAD are read. Comments and empty nodes (8.1) are stepped over; of multiword lines
(3-4) the form is kept as the token that its words share. A block of comments without words is an
empty sentence, which keeps its place among the others. A sentence whose heads are all `_` has words
and no tree.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.files import read_lines
from fairseq_posattn.io.numbers import first_odd, plain_numbers
from fairseq_posattn.trees.checks import TreeError, tree_fault, with_one_root
from fairseq_posattn.trees.forms import plain_form

COLUMNS, FORM, HEAD = 10, 1, 6
NO_HEAD = "_"
EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.[1-9][0-9]{0,8}")
MULTIWORD = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


@dataclass(slots=True)
class Sentence:
    """Words (see `plain_form`), their tree if there is one, and where the sentence starts.

    multiword: first word (from 0), number of words and form of each token of several words.
    """

    words: list[str]
    parents: list[int] | None
    path: str
    line: int
    multiword: list[tuple[int, int, str]]

    @property
    def tokens(self) -> list[str]:
        """The words as the text has them: im, not in and dem."""
        if not self.multiword:
            return self.words
        tokens = list(self.words)
        for first, count, form in reversed(self.multiword):
            tokens[first : first + count] = [form]
        return tokens

    @property
    def words_of_token(self) -> list[int] | None:
        """How many words each token has; None: one each."""
        if not self.multiword:
            return None
        counts = [1] * len(self.words)
        for first, count, _ in reversed(self.multiword):
            counts[first : first + count] = [count]
        return counts


@dataclass(slots=True)
class Block:
    """The lines of one sentence; `line` is the number of the first."""

    path: str
    line: int
    lines: list[str]


def read_conllu(path: str | Path, several_roots: str = "error") -> Iterator[Sentence]:
    """The sentences of a file (plain, .gz or .xz), one after the other."""
    for block in read_blocks(str(path)):
        yield parse_block(block, several_roots)


def read_blocks(path: str) -> Iterator[Block]:
    """The runs of lines between blank lines."""
    lines = []
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line:
            lines.append(line)
        elif lines:
            yield Block(path, number - len(lines), lines)
            lines = []
    if lines:
        yield Block(path, number + 1 - len(lines), lines)


def parse_block(block: Block, several_roots: str = "error") -> Sentence:
    """The sentence of a block, checked."""
    words, heads, numbers, multiword = [], [], [], []
    for number, line in enumerate(block.lines, start=block.line):
        if line[0] == "#":
            continue
        columns = line.split("\t")
        where = f"{block.path}:{number}"
        if is_word(columns, len(words) + 1, where):
            words.append(plain_form(columns[FORM]))
            heads.append(columns[HEAD])
            numbers.append(number)
        elif token := MULTIWORD.fullmatch(columns[0]):
            multiword.append(_multiword(token, columns[FORM], len(words), multiword, where))
    if multiword and sum(multiword[-1][:2]) > len(words):
        raise TreeError(
            f"{block.path}:{block.line}: the sentence ends within the token '{multiword[-1][2]}'"
        )
    parents = _parents(heads, numbers, block.path, several_roots)
    return Sentence(words, parents, block.path, block.line, multiword)


def _multiword(
    token: re.Match, form: str, words: int, before: list, where: str
) -> tuple[int, int, str]:
    """First word (from 0), number of words, form; it must stand right before its words."""
    first, last = int(token[1]), int(token[2])
    if first != words + 1 or last < first or (before and sum(before[-1][:2]) >= first):
        raise TreeError(
            f"{where}: the multiword token {token[0]} does not stand before its own words; "
            f"the next word is {words + 1}"
        )
    if not form:
        raise TreeError(f"{where}: the multiword token {token[0]} is empty; write its form")
    return words, last - first + 1, plain_form(form)


def is_word(columns: list[str], expected: int, where: str) -> bool:
    """Whether the line is a word of the sentence or one to step over; an error if neither."""
    if len(columns) != COLUMNS:
        raise TreeError(
            f"{where}: expected {COLUMNS} columns separated by tabs, found {len(columns)}"
        )
    if columns[0] == str(expected):
        if not columns[FORM]:
            raise TreeError(
                f"{where}: word {expected} is empty; write its form, or _ if it has none"
            )
        return True
    if EMPTY_NODE.fullmatch(columns[0]) or MULTIWORD.fullmatch(columns[0]):
        return False
    raise TreeError(
        f"{where}: expected the word with ID {expected}, found ID '{columns[0]}'; "
        "number the words 1, 2, 3 ..."
    )


def _parents(
    heads: list[str], numbers: list[int], path: str, several_roots: str
) -> list[int] | None:
    if NO_HEAD in heads:
        return _no_parents(heads, numbers, path)
    parents = plain_numbers(heads)
    if parents is None:
        raise _fault_of_heads(heads, numbers, path)
    if several_roots == "first":
        parents = with_one_root(parents)
    if fault := tree_fault(parents):
        raise TreeError(f"{path}:{numbers[fault.word - 1]}: {fault.what}")
    return parents


def _no_parents(heads: list[str], numbers: list[int], path: str) -> None:
    for head, number in zip(heads, numbers, strict=True):
        if head != NO_HEAD:
            missing = numbers[heads.index(NO_HEAD)]
            raise TreeError(
                f"{path}:{missing}: the head is missing, "
                f"but line {number} of the same sentence has one; fill in all or none"
            )


def _fault_of_heads(heads: list[str], numbers: list[int], path: str) -> TreeError:
    word = first_odd(heads)
    return TreeError(
        f"{path}:{numbers[word]}: expected a word number as head (column {HEAD + 1}), "
        f"found '{heads[word]}'"
    )
