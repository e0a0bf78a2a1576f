"""Read dependency trees from CoNLL-U (https://universaldependencies.org/format.html).

Only ID, FORM and HEAD are read, except by `parse_all_columns`. Comments and empty nodes (8.1) are
skipped. The form of a multiword line (3-4) is kept as the token that its words share. A block of
comments without words is an empty sentence, which keeps its place among the others. A sentence
whose column HEAD has `_` for all words has no tree.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.numbers import first_odd, plain_numbers
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
    """A block holds the lines of one sentence; `line` is the number of the first in its file."""

    path: str
    line: int
    lines: list[str]


def read_conllu(path: str | Path, several_roots: str = "error") -> Iterator[Sentence]:
    """Yield the sentences of a CoNLL-U file, which may be plain, .gz, .xz or .zst."""
    for block in read_blocks(str(path)):
        yield parse_block(block, several_roots)


def read_labelled(path: str | Path, several_roots: str = "error") -> Iterator[Sentence]:
    for block in read_blocks(str(path)):
        yield parse_all_columns(block, several_roots)


def read_blocks(path: str) -> Iterator[ConlluBlock]:
    """Yield the blocks of lines between the blank lines of a file."""
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
    """Return the checked sentence of a block, without relations and tags, which few callers use."""
    return parsed(block, several_roots, lambda columns: None)


def parse_all_columns(block: ConlluBlock, several_roots: str = "error") -> Sentence:
    """Return the checked sentence of a block, with its relations and tags as they are."""
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
    """Return the checked sentence of a block; `take` gets the columns of each word."""
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
    """Return a token of several words, which must stand right before its words."""
    first, last = int(token[1]), int(token[2])
    if first != words + 1 or last < first or (before and sum(before[-1][:2]) >= first):
        raise TreeError(
            f"{where}: the multiword token {token[0]} does not stand before its own words; "
            f"the next word is {words + 1}, so mend the range"
        )
    if not form:
        raise TreeError(f"{where}: the multiword token {token[0]} is empty; write its form")
    return words, last - first + 1, escape_whitespace(form)


def is_word(columns: list[str], expected: int, where: str) -> bool:
    """Return True for the line of a word and False for one to skip; refuse any other line."""
    if len(columns) != COLUMNS:
        raise TreeError(
            f"{where}: CoNLL-U has {COLUMNS} columns separated by tabs, but this line has "
            f"{len(columns)}; mend it"
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
        f"{where}: the line has the ID '{columns[0]}', but word {expected} is expected here; "
        "number the words 1, 2, 3 ..."
    )


def _parents(
    head_column: list[str], numbers: list[int], path: str, several_roots: str
) -> list[int] | None:
    if NO_PARENT in head_column:
        _no_parents(head_column, numbers, path)
        return None
    parents = plain_numbers(head_column)
    if parents is None:
        raise _fault_of_column(head_column, numbers, path)
    if several_roots == "first":
        parents = with_one_root(parents)
    if fault := tree_fault(parents):
        raise TreeError(f"{path}:{numbers[fault.word - 1]}: {fault.what}")
    return parents


def _no_parents(head_column: list[str], numbers: list[int], path: str) -> None:
    """Refuse a sentence in which some words have a parent and others have none."""
    for parent, number in zip(head_column, numbers, strict=True):
        if parent != NO_PARENT:
            missing = numbers[head_column.index(NO_PARENT)]
            raise TreeError(
                f"{path}:{missing}: the parent (column {HEAD + 1}, HEAD) is missing, "
                f"but line {number} of the same sentence has one; fill in all or none"
            )


def _fault_of_column(head_column: list[str], numbers: list[int], path: str) -> TreeError:
    word = first_odd(head_column)
    return TreeError(
        f"{path}:{numbers[word]}: the parent (column {HEAD + 1}, HEAD) is '{head_column[word]}'; "
        "write the number of a word, or 0 for the root"
    )


# Only spaces stay in a word or a comment. Other readers may take any other whitespace for the end
# of a line or of a column.
CONTROL = re.compile(r"[^\S \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
TEXT = "# text = "
TEXT_COMMENT = re.compile(r"#\s*text\s*= ?(.*)")


def text_of(block: ConlluBlock) -> str | None:
    """Return the raw text that a block names, if it names one."""
    return next((found[1] for found in map(TEXT_COMMENT.match, block.lines) if found), None)


def comment_of(block: ConlluBlock, name: str) -> str | None:
    """Return what the comment `# NAME = ...` of a block says, without spaces around it."""
    comment = re.compile(rf"#\s*{re.escape(name)}\s*=(.*)")
    return next((found[1].strip() for found in map(comment.match, block.lines) if found), None)


def raw_text(block: ConlluBlock) -> str:
    """Return the text of a block, which its tokens spell where no comment names it."""
    if (text := text_of(block)) is not None:
        return text.strip()
    parse_block(block, "first")  # it refuses what is no CoNLL-U
    spelled, inside = "", 0  # words up to this one are part of a token
    for columns in (line.split("\t") for line in block.lines if line[0] != "#"):
        first, _, last = columns[0].partition("-")
        if "." not in first and int(first) > inside:
            inside = int(last or first)
            spelled += columns[FORM] + ("" if "SpaceAfter=No" in columns[MISC].split("|") else " ")
    return spelled.strip()


def plain_line(line: str) -> str:
    """Return a line as a comment of CoNLL-U can hold it."""
    return CONTROL.sub(OPEN_BOX, line)


def block(line: str, sentence: Sentence, number: int) -> str:
    """Return the block of CoNLL-U for a line; that of an empty line has comments alone."""
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
    """Return a row for each word, with `_` where nothing is known."""
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
