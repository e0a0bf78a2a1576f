"""The text files between the steps of the preparation, one line a sentence.

- words: plain words (`escape_whitespace`), joined by one space; an empty line is an empty sentence;
- parents: of each word, counted from 1, 0 for the root: `2 0 2`; a line `-`: no tree; where the
  words are tokens of the text, the words of one token are joined: `3+3 0` (im Haus);
- trees: for each word its parent and the number of its pieces: `2:1 0:3 2:1`.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.numbers import first_odd, plain_numbers
from fairseq_posattn.trees.checks import TreeError, checked_tree

NO_TREE = "-"
Tree = tuple[Sequence[int], Sequence[int]]  # parents, pieces of each word
# parents of the words or no tree, and how many words each token has (None: one each)
Parents = tuple[Sequence[int] | None, Sequence[int] | None]


def words_line(words: Sequence[str]) -> str:
    return " ".join(words)


def parents_line(parents: Sequence[int] | None, words_of_token: Sequence[int] | None = None) -> str:
    if parents is None:
        return NO_TREE
    if words_of_token is None:
        return " ".join(map(str, parents))
    rest = iter(map(str, parents))
    return " ".join("+".join(islice(rest, count)) for count in words_of_token)


def tree_line(parents: Sequence[int], pieces: Sequence[int]) -> str:
    return " ".join([f"{parent}:{count}" for parent, count in zip(parents, pieces, strict=True)])


def parse_words(line: str, where: str) -> list[str]:
    """The words of a line; pieces are read in the same way."""
    words = line.split(" ") if line else []
    if "" in words:
        raise TreeError(
            f"{where}: words must be separated by one space, "
            "with none before the first and after the last"
        )
    return words


def parse_parents(line: str, where: str, several_roots: str = "error") -> Parents:
    if line == NO_TREE:
        return None, None
    tokens = parse_words(line, where)
    words_of_token = None
    if "+" in line:
        words_of_token = [token.count("+") + 1 for token in tokens]
        tokens = "+".join(tokens).split("+")
    return checked_tree(_numbers(tokens, where), where, several_roots), words_of_token


def parse_tree(line: str, where: str) -> Tree:
    tokens = parse_words(line, where)
    if any(token.count(":") != 1 for token in tokens):
        raise TreeError(
            f"{where}: expected parent:pieces for each word, as in '2:1 0:3', found '{line}'"
        )
    numbers = _numbers(" ".join(tokens).replace(":", " ").split(" ") if tokens else [], where)
    parents, pieces = numbers[0::2], numbers[1::2]
    if pieces and min(pieces) < 0:
        raise TreeError(f"{where}: word {pieces.index(min(pieces)) + 1} has {min(pieces)} pieces")
    return checked_tree(parents, where), pieces


def _numbers(tokens: Sequence[str], where: str) -> list[int]:
    numbers = plain_numbers(tokens)
    if numbers is None:
        raise TreeError(f"{where}: expected whole numbers, found '{tokens[first_odd(tokens)]}'")
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
