"""From words to pieces: how many pieces each word of a tree was split into."""

from collections.abc import Sequence
from typing import NamedTuple

from fairseq_posattn.trees.alignment import Span, match, project_spans, spans, word_spans
from fairseq_posattn.trees.checks import TreeError

SEPARATOR = "@@"


class Parsed(NamedTuple):
    """The tree of a line: its tokens, the parents of its words, and how many words each token has
    (None: one each), as 2 for the German im = in + dem."""

    tokens: Sequence[str]
    parents: Sequence[int]
    words_of_token: Sequence[int] | None = None


def words_of_pieces(
    pieces: Sequence[str], separator: str = SEPARATOR
) -> tuple[list[str], list[int]]:
    """The words that pieces of subword-nmt spell, and the number of pieces of each: a separator at
    the end of a piece joins it to the next."""
    words, counts, beginning = [], [], []
    for piece in pieces:
        if piece.endswith(separator):
            beginning.append(piece[: -len(separator)])
            continue
        words.append("".join(beginning) + piece)
        counts.append(len(beginning) + 1)
        beginning = []
    if beginning:
        raise TreeError(
            f"the last piece '{pieces[-1]}' has no successor to join; is the line cut off?"
        )
    return words, counts


def without_separators(pieces: Sequence[str], separator: str = SEPARATOR) -> list[str]:
    """What each piece of subword-nmt spells."""
    return [piece.removesuffix(separator) for piece in pieces]


def project(
    parsed: Parsed, pieces: Sequence[str], where: str, separator: str = SEPARATOR
) -> list[int]:
    """The number of pieces of each word, of pieces of subword-nmt, which spell their line."""
    try:
        spelled, counts = words_of_pieces(pieces, separator)
    except TreeError as error:
        raise TreeError(f"{where}: {error}") from error
    if parsed.words_of_token is None and spelled == list(parsed.tokens):
        _check_lengths(parsed, where)
        return counts
    return project_line(
        parsed, " ".join(spelled), spans(without_separators(pieces, separator)), where
    )


def project_line(parsed: Parsed, line: str, pieces: Sequence[Span], where: str) -> list[int]:
    """The number of pieces of each word, of pieces that lie anywhere in the line."""
    _check_lengths(parsed, where)
    match(line, parsed.tokens, where)
    return project_spans(parsed.parents, word_spans(parsed.tokens, parsed.words_of_token), pieces)


def _check_lengths(parsed: Parsed, where: str) -> None:
    words = len(parsed.tokens) if parsed.words_of_token is None else sum(parsed.words_of_token)
    if len(parsed.parents) != words:
        raise TreeError(
            f"{where}: the sentence has {words} words and its tree {len(parsed.parents)}; "
            "make both from the same CoNLL-U file"
        )
