"""Project a tree from words to pieces: count how many pieces each of its words was split into."""

from collections.abc import Sequence

from fairseq_posattn.trees.alignment import Span, match, project_spans, spans, word_spans
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.sentence import Sentence

SEPARATOR = "@@"


def words_of_pieces(
    pieces: Sequence[str], separator: str = SEPARATOR
) -> tuple[list[str], list[int]]:
    """Return the words that pieces of subword-nmt spell, and the number of pieces of each word.

    A piece that ends in the separator is joined to the next piece.
    """
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
            f"the last piece '{pieces[-1]}' must be joined to a next one, but there is none; "
            "segment the line again, which seems cut off"
        )
    return words, counts


def without_separators(pieces: Sequence[str], separator: str = SEPARATOR) -> list[str]:
    return [piece.removesuffix(separator) for piece in pieces]


def project(
    sentence: Sentence, pieces: Sequence[str], where: str, separator: str = SEPARATOR
) -> list[int]:
    """Return the number of pieces of each word of a sentence that subword-nmt segmented.

    Its pieces spell the whole line, so the line itself is not needed.
    """
    try:
        spelled, counts = words_of_pieces(pieces, separator)
    except TreeError as error:
        raise TreeError(f"{where}: {error}") from error
    if not sentence.multiword and spelled == sentence.words:
        checked_parents(sentence, where)
        return counts
    return project_line(
        sentence, " ".join(spelled), spans(without_separators(pieces, separator)), where
    )


def project_line(sentence: Sentence, line: str, pieces: Sequence[Span], where: str) -> list[int]:
    """Return the number of pieces of each word, from the spans of the pieces in the line."""
    parents = checked_parents(sentence, where)
    tokens = sentence.tokens
    match(line, tokens, where)
    return project_spans(parents, word_spans(tokens, sentence.words_of_token), pieces)


def checked_parents(sentence: Sentence, where: str) -> Sequence[int]:
    """Return the parents of the words, or raise an error if there is not one for each word."""
    parents = sentence.parents
    if parents is None:
        raise TreeError(f"{where}: the sentence has no tree; parse it")
    if len(parents) != len(sentence.words):
        raise TreeError(
            f"{where}: the sentence has {len(sentence.words)} words and its tree {len(parents)}; "
            "make both from the same CoNLL-U file"
        )
    return parents
