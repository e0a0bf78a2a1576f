"""Project dependency trees from words to pieces, by counting the pieces of each word.

Words and pieces are aligned by their characters in the line of text. Offsets count the characters
of the line without whitespace (see `dense`), so the parser and the segmenter may split the line
differently. A span is a pair (start, end) with an exclusive end.
"""

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
    """Return the span of each token in the concatenation of all tokens."""
    ends = list(accumulate(len(dense(token)) for token in tokens))
    return list(zip([0, *ends], ends, strict=False))


def word_spans(tokens: Sequence[str], words_of_token: Sequence[int] | None = None) -> list[Span]:
    """Return the span of each word.

    All words of a multiword token (im = in + dem) have the span of the token.
    """
    token_spans = spans(tokens)
    if words_of_token is None:
        return token_spans
    return [
        span for span, count in zip(token_spans, words_of_token, strict=True) for _ in range(count)
    ]


def match(line: str, tokens: Sequence[str], where: str) -> None:
    """Raise a TreeError unless the tokens of a tree match the line of text.

    Differences in case, between compatibility characters (NFKC) and between punctuation marks are
    ignored. `where` is the prefix of the error message.
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
        f"{where}: text and tree do not match, because character {differs + 1} (without spaces) is "
        f"{found} in the text and {expected} in the tree; parse and segment the same lines (the "
        f"text is '{shortened(line)}', the tree has '{shortened(' '.join(tokens))}')"
    )


def _alike(a: str, b: str) -> bool:
    return (_is_punctuation(a) and _is_punctuation(b)) or same_text(a, b)


def same_text(a: str, b: str) -> bool:
    """Return whether two texts are considered equal.

    Differences in case, between compatibility characters (NFKC) and between punctuation marks are
    ignored, and so are invisible characters such as spaces and zero-width characters.
    """
    return a == b or _plain(a) == _plain(b)


def _plain(text: str) -> str:
    # NFKD unifies precomposed characters and sequences of combining characters
    found = (
        "." if _is_punctuation(character) else character
        for character in unicodedata.normalize("NFKD", text)
        if character not in NOT_SHOWN and unicodedata.category(character)[0] not in "CZ"
    )
    # upper and casefold together normalise the Greek final sigma and the Turkish dotless i
    return "".join(found).upper().casefold()


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def project_spans(
    parents: Sequence[int], words: Sequence[Span], pieces: Sequence[Span]
) -> list[int]:
    """Return the number of pieces of each word, given the spans of the words and the pieces.

    If a piece covers several words, it is assigned to the word that is the parent of the others, or
    to the first word if there is no such parent. A piece is never assigned to a word that precedes
    the word of the previous piece. A piece without characters is assigned to the next word.
    """
    counts = [0] * len(words)
    first = chosen = 0  # the words before `first` end before the piece starts
    for begin, end in pieces:
        while first < len(words) - 1 and words[first][1] <= begin:
            first += 1
        covered = _covered(words, first, begin, max(end, begin + 1))
        chosen = max(chosen, covered[0] if len(covered) == 1 else _parent_of_all(parents, covered))
        counts[chosen] += 1
    return counts


def _covered(words: Sequence[Span], first: int, begin: int, end: int) -> list[int]:
    """Return the words, starting at `first`, that overlap the span (begin, end).

    If the span is after the last character, no word overlaps it. In this case, return the words of
    the last token; a multiword token has several words.
    """
    last = first
    while last < len(words) and words[last][0] < end:
        last += 1
    found = [k for k in range(first, last) if words[k][1] > max(begin, words[k][0])]
    return found or [k for k in range(len(words)) if words[k] == words[-1]]


def _parent_of_all(parents: Sequence[int], covered: Sequence[int]) -> int:
    """Return the word that is the parent of all other covered words, or else the first one."""
    for parent in covered:
        if all(parents[word] == parent + 1 for word in covered if word != parent):
            return parent
    return covered[0]


SEPARATOR = "@@"


def words_of_pieces(
    pieces: Sequence[str], separator: str = SEPARATOR
) -> tuple[list[str], list[int]]:
    """Merge subword-nmt pieces into words; return the words and the number of pieces per word.

    Example:

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
    """Return the number of pieces of each word in a sentence, given its subword-nmt pieces.

        counts = project(sentence, ["ein", "Haus@@", "boot"], "train.bpe.de:1")

    `where` is the prefix of error messages. The line of text is not needed, because it can be
    reconstructed from the pieces.
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
    """Return the number of pieces of each word, given the line and the spans of its pieces."""
    parents = checked_parents(sentence, where)
    tokens = sentence.tokens
    match(line, tokens, where)
    if pieces and not tokens:
        raise TreeError(f"{where}: found {len(pieces)} pieces, but no words; parse the line again")
    return project_spans(parents, word_spans(tokens, sentence.words_of_token), pieces)


def checked_parents(sentence: Sentence, where: str) -> Sequence[int]:
    """Return the parents of the words; raise a TreeError unless every word has one."""
    parents = sentence.parents
    if parents is None:
        raise TreeError(f"{where}: the sentence has no tree; parse it")
    if len(parents) != len(sentence.words):
        raise TreeError(
            f"{where}: the sentence has {len(sentence.words)} words, but its tree has "
            f"{len(parents)}; create both from the same CoNLL-U file"
        )
    return parents
