"""Read and write the text files of the preprocessing steps, which contain one sentence per line.

- Words: separated by single spaces (see `escape_whitespace`). An empty line is an empty sentence.
- Parents: the parent of each word, as in `2 0 2`. Words are numbered from 1, and the parent of the
  root is 0. The line `-` means that the sentence has no tree. In files with one entry per token,
  the parents of the words of a multiword token are joined by `+`, as in `3+3 0` for `im Haus`.
- Labels: the relations, a tab, and the parts of speech, as in `det root<TAB>DET NOUN`. The line `-`
  means that the sentence has no tree.
- Trees: the parent and the number of pieces of each word, as in `2:1 0:3 2:1`. If the labels are
  known, a tab and the line of labels follow.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.numbers import first_odd, plain_numbers
from fairseq_posattn.trees.checks import TreeError, checked_tree
from fairseq_posattn.trees.sentence import Labels, Tree

NO_TREE = "-"
TAB = "\t"
# parents of the words (None: no tree), and number of words of each token (None: one each)
Parents = tuple[Sequence[int] | None, Sequence[int] | None]


def words_line(words: Sequence[str]) -> str:
    return " ".join(words)


def parents_line(parents: Sequence[int] | None, words_of_token: Sequence[int] | None = None) -> str:
    """Format the parents of the words as a line; `-` means that there is no tree."""
    if parents is None:
        return NO_TREE
    if words_of_token is None:
        return " ".join(map(str, parents))
    rest = iter(map(str, parents))
    return " ".join("+".join(islice(rest, count)) for count in words_of_token)


def labels_line(labels: Labels) -> str:
    return TAB.join(map(" ".join, labels))


def tree_line(parents: Sequence[int], pieces: Sequence[int], labels: Labels | None = None) -> str:
    """Format the parents, the numbers of pieces and, if given, the labels of the words."""
    tree = " ".join([f"{parent}:{count}" for parent, count in zip(parents, pieces, strict=True)])
    return tree if labels is None else tree + TAB + labels_line(labels)


def parse_words(line: str, where: str) -> list[str]:
    """Split a line into words or pieces; raise a TreeError unless single spaces separate them."""
    words = line.split(" ") if line else []
    if "" in words:
        raise TreeError(
            f"{where}: the line starts or ends with a space or has two in a row; separate words by "
            "single spaces"
        )
    return words


def parse_parents(line: str, where: str, several_roots: str = "error") -> Parents:
    """Parse a line of parents; raise a TreeError if they do not form a tree."""
    if line == NO_TREE:
        return None, None
    tokens = parse_words(line, where)
    words_of_token = None
    if "+" in line:
        words_of_token = [token.count("+") + 1 for token in tokens]
        tokens = "+".join(tokens).split("+")
    return checked_tree(_numbers(tokens, where), where, several_roots), words_of_token


def parse_labels(line: str, words: int, where: str) -> Labels:
    """Parse a line of labels.

    Raise a TreeError unless it contains a relation and a part of speech for each word.
    """
    columns = [parse_words(column, where) for column in line.split(TAB)]
    if len(columns) != 2 or any(len(column) != words for column in columns):
        raise TreeError(
            f"{where}: expected {words} relations, a tab and {words} parts of speech; create "
            "parents and labels from the same CoNLL-U file"
        )
    return Labels(*columns)


def parse_tree(line: str, where: str) -> Tree:
    line, labelled, labels = line.partition(TAB)
    tokens = parse_words(line, where)
    if any(token.count(":") != 1 for token in tokens):
        raise TreeError(
            f"{where}: expected parent:pieces for each word, as in '2:1 0:3', found '{line}'; "
            "project the trees again"
        )
    numbers = _numbers(" ".join(tokens).replace(":", " ").split(" ") if tokens else [], where)
    parents, pieces = numbers[0::2], numbers[1::2]
    if pieces and min(pieces) < 0:
        raise TreeError(
            f"{where}: word {pieces.index(min(pieces)) + 1} has {min(pieces)} pieces; "
            "project the trees again"
        )
    of_words = parse_labels(labels, len(parents), where) if labelled else None
    return Tree(checked_tree(parents, where), pieces, of_words)


def _numbers(tokens: Sequence[str], where: str) -> list[int]:
    numbers = plain_numbers(tokens)
    if numbers is None:
        raise TreeError(
            f"{where}: '{tokens[first_odd(tokens)]}' is not a whole number; write numbers like 10"
        )
    return numbers


def read_words(path: str | Path) -> Iterator[list[str]]:
    for number, line in enumerate(read_lines(path), start=1):
        yield parse_words(line, f"{path}:{number}")


def read_parents(path: str | Path, several_roots: str = "error") -> Iterator[Parents]:
    for number, line in enumerate(read_lines(path), start=1):
        yield parse_parents(line, f"{path}:{number}", several_roots)


def read_trees(path: str | Path) -> Iterator[Tree]:
    for number, line in enumerate(read_lines(path), start=1):
        yield parse_tree(line, f"{path}:{number}")
