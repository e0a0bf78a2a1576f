"""Project a tree from words to pieces: count the pieces of each word.

Words and pieces are aligned by the characters of their common line of text. All offsets refer to
the line without whitespace (`dense`), so parser and segmenter may split and space it differently. A
span is (start, end), with the end excluded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.sentence import OPEN_BOX, Sentence, shortened

Span = tuple[int, int]
NOT_SHOWN = f"{OPEN_BOX}\u2581\ufffd"  # sentencepiece replaces the last two by spaces


def dense(text: str) -> str:
    """Remove whitespace and the open box, which represents whitespace, from a text."""
    return "".join(text.replace(OPEN_BOX, " ").split())


def spans(tokens: Sequence[str]) -> list[Span]:
    """Return the span of each token in their concatenated dense text."""
    ends = list(accumulate(len(dense(token)) for token in tokens))
    return list(zip([0, *ends], ends, strict=False))


def word_spans(tokens: Sequence[str], words_of_token: Sequence[int] | None = None) -> list[Span]:
    """Return the span of each word; the words of a multiword token (im = in + dem) share one."""
    token_spans = spans(tokens)
    if words_of_token is None:
        return token_spans
    return [
        span for span, count in zip(token_spans, words_of_token, strict=True) for _ in range(count)
    ]


def match(line: str, tokens: Sequence[str], where: str) -> None:
    """Raise a TreeError that starts with `where` unless the tokens of a tree spell the line.

    Differences in case, compatibility characters (NFKC) and type of punctuation are ignored.
    """
    ours, theirs = dense(line), dense("".join(tokens))
    if ours == theirs:
        return
    pairs = enumerate(zip(ours, theirs, strict=False))
    differs = next((k for k, pair in pairs if not _alike(*pair)), None)
    if differs is None:
        if len(ours) == len(theirs):
            return
        differs = min(len(ours), len(theirs))
    found, expected = (
        repr(text[differs]) if differs < len(text) else "the end" for text in (ours, theirs)
    )
    raise TreeError(
        f"{where}: text and tree do not match: character {differs + 1} (without spaces) is {found} "
        f"in the text and {expected} in the tree; parse and segment the same lines (the text is "
        f"'{shortened(line)}', the tree has '{shortened(' '.join(tokens))}')"
    )


def _alike(a: str, b: str) -> bool:
    return (_is_punctuation(a) and _is_punctuation(b)) or same_text(a, b)


def same_text(a: str, b: str) -> bool:
    """Return whether texts are equal up to case, compatibility characters (NFKC), type of
    punctuation, and invisible characters such as spaces and zero-width characters."""
    return a == b or _plain(a) == _plain(b)


def _plain(text: str) -> str:
    # NFKD unifies precomposed characters and sequences of combining characters
    found = (
        "." if _is_punctuation(character) else character
        for character in unicodedata.normalize("NFKD", text)
        if character not in NOT_SHOWN and unicodedata.category(character)[0] not in "CZ"
    )
    # together they unify the final sigma of Greek and the dotless i of Turkish
    return "".join(found).upper().casefold()


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def project_spans(
    parents: Sequence[int], words: Sequence[Span], pieces: Sequence[Span]
) -> list[int]:
    """Return the number of pieces of each word.

    A piece that covers several words is assigned to the word that is the parent of the others, if
    there is one, otherwise to the first, but never to a word before that of the previous piece. A
    piece without characters is assigned to the following word.
    """
    counts = [0] * len(words)
    if pieces and not words:
        raise TreeError(f"there are {len(pieces)} pieces, but no words; parse the line again")
    first = chosen = 0  # the words before `first` end before the piece starts
    for begin, end in pieces:
        while first < len(words) - 1 and words[first][1] <= begin:
            first += 1
        covered = _covered(words, first, begin, max(end, begin + 1))
        chosen = max(chosen, covered[0] if len(covered) == 1 else _parent_of_all(parents, covered))
        counts[chosen] += 1
    return counts


def _covered(words: Sequence[Span], first: int, begin: int, end: int) -> list[int]:
    """Return the words from `first` on that overlap the span (begin, end).

    Return the words of the last token if the span is at the end of the line.
    """
    last = first
    while last < len(words) and words[last][0] < end:
        last += 1
    found = [k for k in range(first, last) if words[k][1] > max(begin, words[k][0])]
    return found or [k for k in range(len(words)) if words[k] == words[-1]]


def _parent_of_all(parents: Sequence[int], covered: Sequence[int]) -> int:
    """Return the word that is the parent of all others, or else the first one."""
    for parent in covered:
        if all(parents[word] == parent + 1 for word in covered if word != parent):
            return parent
    return covered[0]


SEPARATOR = "@@"


def words_of_pieces(
    pieces: Sequence[str], separator: str = SEPARATOR
) -> tuple[list[str], list[int]]:
    """Join pieces of subword-nmt to words, and return them with their numbers of pieces.

    words_of_pieces(["ein", "Haus@@", "boot"])  # (["ein", "Hausboot"], [1, 2])
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
            f"the last piece '{pieces[-1]}' ends with '{separator}', but no piece follows; "
            "segment the line again, since it seems truncated"
        )
    return words, counts


def without_separators(pieces: Sequence[str], separator: str = SEPARATOR) -> list[str]:
    return [piece.removesuffix(separator) for piece in pieces]


def project(
    sentence: Sentence, pieces: Sequence[str], where: str, separator: str = SEPARATOR
) -> list[int]:
    """Return the number of pieces of each word of a sentence, from pieces of subword-nmt.

        counts = project(sentence, ["ein", "Haus@@", "boot"], "train.bpe.de:1")

    where: start of error messages. The line is not needed, because the pieces spell it.
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
    """Return the number of pieces of each word, given the spans of the pieces in the line."""
    parents = checked_parents(sentence, where)
    tokens = sentence.tokens
    match(line, tokens, where)
    return project_spans(parents, word_spans(tokens, sentence.words_of_token), pieces)


def checked_parents(sentence: Sentence, where: str) -> Sequence[int]:
    """Return the parents of the words; raise a TreeError unless each word has one."""
    parents = sentence.parents
    if parents is None:
        raise TreeError(f"{where}: the sentence has no tree; parse it")
    if len(parents) != len(sentence.words):
        raise TreeError(
            f"{where}: the sentence has {len(sentence.words)} words, but its tree {len(parents)}; "
            "create both from the same CoNLL-U file"
        )
    return parents
