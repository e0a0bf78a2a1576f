"""Read and write trees in the CoNLL-U format (https://universaldependencies.org/format.html).

Only the columns ID, FORM and HEAD are read, except by `parse_all_columns` and `raw_text`. Comments
and empty nodes (such as 8.1) are skipped. For multiword tokens (such as 3-4), the form and the
range of words are stored. A block that contains only comments represents an empty sentence, so that
sentences remain aligned with the lines of the text file. A sentence has no tree if its HEAD column
contains only `_`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.numbers import first_odd, plain_numbers
from fairseq_posattn.trees.checks import TreeError, tree_fault, with_one_root
from fairseq_posattn.trees.sentence import (
    NO_TAGS,
    OPEN_BOX,
    Multiword,
    Sentence,
    Tags,
    escape_whitespace,
    mended,
)

COLUMNS, FORM, HEAD, DEPREL, MISC = 10, 1, 6, 7, 9
TAGS = slice(2, 6)  # lemma, upos, xpos, feats
NO_PARENT = "_"
EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.[1-9][0-9]{0,8}")
MULTIWORD = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


@dataclass(slots=True)
class ConlluBlock:
    """The lines of one sentence; `line` is the number of the first line in the file."""

    path: str
    line: int
    lines: list[str]


def read_conllu(path: str | Path, several_roots: str = "error") -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file (plain, .gz, .xz or .zst), without relations and tags.

        trees = [sentence.parents for sentence in read_conllu("train.conllu.xz")]

    several_roots: "error" raises a TreeError for a sentence that has several roots; "first"
        attaches all further roots to the first root.
    """
    for block in read_blocks(str(path)):
        yield parse_block(block, several_roots)


def read_labelled(path: str | Path, several_roots: str = "error") -> Iterator[Sentence]:
    for block in read_blocks(str(path)):
        yield parse_all_columns(block, several_roots)


def read_blocks(path: str) -> Iterator[ConlluBlock]:
    """Yield the blocks of a file, which are separated by blank lines."""
    lines = []
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line:
            lines.append(line)
        elif lines:
            yield ConlluBlock(path, number - len(lines), lines)
            lines = []
    if lines:
        yield ConlluBlock(path, number + 1 - len(lines), lines)


def parse_block(block: ConlluBlock, several_roots: str = "error") -> Sentence:
    """Parse and validate a block, but ignore relations and tags."""
    return parsed(block, several_roots, lambda columns: None)


def parse_all_columns(block: ConlluBlock, several_roots: str = "error") -> Sentence:
    """Parse and validate a block, including relations and tags."""
    tags: list[Tags] = []
    relations: list[str] = []
    parents: list[str] = []

    def take(columns: list[str]) -> None:
        tags.append(Tags(*columns[TAGS]))
        relations.append(columns[DEPREL])
        parents.append(columns[HEAD])

    sentence = parsed(block, several_roots, take)
    sentence.tags, sentence.relations = tags, relations
    if sentence.parents is not None:
        before = list(map(int, parents))
        sentence.relations = mended(relations, before, sentence.parents)
    return sentence


def parsed(block: ConlluBlock, several_roots: str, take: Callable[[list[str]], None]) -> Sentence:
    """Parse and validate a block; call `take` with the columns of each word."""
    words: list[str] = []
    head_column: list[str] = []
    numbers: list[int] = []
    multiword: list[Multiword] = []
    for number, line in enumerate(block.lines, start=block.line):
        if line[0] == "#":
            continue
        columns = line.split("\t")
        where = f"{block.path}:{number}"
        if is_word(columns, len(words) + 1, where):
            words.append(escape_whitespace(columns[FORM]))
            head_column.append(columns[HEAD])
            numbers.append(number)
            take(columns)
        elif token := MULTIWORD.fullmatch(columns[0]):
            multiword.append(_multiword(token, columns[FORM], len(words), multiword, where))
    if multiword and sum(multiword[-1][:2]) > len(words):
        raise TreeError(
            f"{block.path}:{block.line}: the sentence ends within the token '{multiword[-1][2]}'; "
            "add the missing words"
        )
    parents = _parents(head_column, numbers, block.path, several_roots)
    return Sentence(words, parents, multiword, None, None, None, block.path, block.line)


def _multiword(
    token: re.Match[str], form: str, words: int, before: list[Multiword], where: str
) -> Multiword:
    """Parse the line of a multiword token, which must directly precede its words."""
    first, last = int(token[1]), int(token[2])
    if first != words + 1 or last < first or (before and sum(before[-1][:2]) >= first):
        raise TreeError(
            f"{where}: the range {token[0]} of the multiword token must start at the next word, "
            f"{words + 1}, end at or after it, and not overlap another range; correct it"
        )
    if not form:
        raise TreeError(f"{where}: the multiword token {token[0]} has no form; add it")
    return words, last - first + 1, escape_whitespace(form)


def is_word(columns: list[str], expected: int, where: str) -> bool:
    """Return whether a line describes a word.

    Return False for empty nodes and multiword tokens, and raise a TreeError for invalid lines.
    `expected` is the ID that the next word must have.
    """
    if len(columns) != COLUMNS:
        raise TreeError(
            f"{where}: CoNLL-U has {COLUMNS} columns separated by tabs, but this line has "
            f"{len(columns)}; correct it"
        )
    if columns[0] == str(expected):
        if not columns[FORM]:
            raise TreeError(f"{where}: word {expected} has no form; add it, or write _")
        return True
    if EMPTY_NODE.fullmatch(columns[0]) or MULTIWORD.fullmatch(columns[0]):
        return False
    raise TreeError(
        f"{where}: expected the ID {expected}, found '{columns[0]}'; number the words 1, 2, 3 ..."
    )


def _parents(
    head_column: list[str], numbers: list[int], path: str, several_roots: str
) -> list[int] | None:
    if NO_PARENT in head_column:
        _no_parents(head_column, numbers, path)
        return None
    parents = plain_numbers(head_column)
    if parents is None:
        word = first_odd(head_column)
        raise TreeError(
            f"{path}:{numbers[word]}: the parent (column {HEAD + 1}, HEAD) is "
            f"'{head_column[word]}'; write the number of a word, or 0 for the root"
        )
    if several_roots == "first":
        parents = with_one_root(parents)
    if fault := tree_fault(parents):
        raise TreeError(f"{path}:{numbers[fault.word - 1]}: {fault.what}")
    return parents


def _no_parents(head_column: list[str], numbers: list[int], path: str) -> None:
    """Raise a TreeError if some words of a sentence have a parent and others do not."""
    for parent, number in zip(head_column, numbers, strict=True):
        if parent != NO_PARENT:
            missing = numbers[head_column.index(NO_PARENT)]
            raise TreeError(
                f"{path}:{missing}: the parent (column {HEAD + 1}, HEAD) is missing, "
                f"but line {number} of the same sentence has one; fill in all or none"
            )


# Whitespace other than spaces, where other programs may split lines or columns.
CONTROL = re.compile(r"[^\S \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
TEXT = "# text = "
TEXT_COMMENT = re.compile(r"#\s*text\s*= ?(.*)")


def text_of(block: ConlluBlock) -> str | None:
    """Return the raw text from the comment `# text = ...` of a block, or None if there is none."""
    return next((found[1] for found in map(TEXT_COMMENT.match, block.lines) if found), None)


def comment_of(block: ConlluBlock, name: str) -> str | None:
    """Return the stripped value of the comment `# NAME = ...` of a block, or None."""
    comment = re.compile(rf"#\s*{re.escape(name)}\s*=(.*)")
    return next((found[1].strip() for found in map(comment.match, block.lines) if found), None)


def raw_text(block: ConlluBlock) -> str:
    """Return the raw text of a block.

    If there is no comment `# text = ...`, the text is reconstructed from the tokens.
    """
    if (text := text_of(block)) is not None:
        return text.strip()
    parse_block(block, "first")  # validates the block
    spelled, inside = "", 0  # words up to ID `inside` are already spelled
    for columns in (line.split("\t") for line in block.lines if line[0] != "#"):
        first, _, last = columns[0].partition("-")
        if "." not in first and int(first) > inside:
            inside = int(last or first)
            spelled += columns[FORM] + ("" if "SpaceAfter=No" in columns[MISC].split("|") else " ")
    return spelled.strip()


def plain_line(line: str) -> str:
    """Replace whitespace other than spaces, such as tabs, with the open box, U+2423."""
    return CONTROL.sub(OPEN_BOX, line)


def block(line: str, sentence: Sentence, number: int) -> str:
    """Format a sentence and its raw text as a CoNLL-U block.

    The block of an empty sentence contains only comments.
    """
    rows = [f"# sent_id = {number}", TEXT + plain_line(line)]
    if sentence.note:
        rows.append(f"# note = {plain_line(sentence.note)}")
    tokens = {first: (count, form) for first, count, form in sentence.multiword}
    for k, word in enumerate(word_rows(sentence)):
        if k in tokens:
            count, form = tokens[k]
            rows.append(row(f"{k + 1}-{k + count}", form, "_", "_", "_", "_", "_", "_"))
        rows.append(word)
    return "\n".join(rows) + "\n\n"


def word_rows(sentence: Sentence) -> list[str]:
    """Format each word as a row; unknown values are written as `_`."""
    nothing = ["_"] * len(sentence.words)
    parents = nothing if sentence.parents is None else map(str, sentence.parents)
    relations = sentence.relations or nothing
    tags = sentence.tags or [NO_TAGS] * len(nothing)
    columns = zip(sentence.words, tags, parents, relations, strict=True)
    return [
        row(str(number), word, plain_line(lemma), upos, xpos, feats, parent, relation)
        for number, (word, (lemma, upos, xpos, feats), parent, relation) in enumerate(columns, 1)
    ]


def row(number: str, form: str, *columns: str) -> str:
    return "\t".join([number, plain_line(form), *columns, "_", "_"])
