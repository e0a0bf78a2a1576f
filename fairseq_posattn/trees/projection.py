"""Project a tree from words to pieces: count how many pieces each of its words was split into.

Words and pieces are aligned by the characters of the line that both of them came from. All offsets
count the characters of a line without whitespace (`dense`), so a parser and a segmenter may cut and
space the line as they like. A span is (first, one after last).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.sentence import OPEN_BOX, Sentence, shortened

Span = tuple[int, int]
NOT_SHOWN = f"{OPEN_BOX}\u2581\ufffd"  # sentencepiece writes spaces for the last two


def dense(text: str) -> str:
    """Return a text without whitespace and without the open box, which stands for whitespace."""
    return "".join(text.replace(OPEN_BOX, " ").split())


def spans(tokens: Sequence[str]) -> list[Span]:
    """Return the span of each token in the dense text that the tokens spell."""
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
    """Raise an error, which begins with `where`, unless the tokens of a tree spell the line.

    The characters must be the same, up to case, compatibility (NFKC) and the kind of punctuation.
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
        f"in the text and {expected} in the tree; the text is '{shortened(line)}', the tree has "
        f"'{shortened(' '.join(tokens))}'; parse and segment the same lines"
    )


def _alike(a: str, b: str) -> bool:
    return (_is_punctuation(a) and _is_punctuation(b)) or same_text(a, b)


def same_text(a: str, b: str) -> bool:
    """Return whether texts are the same up to case, compatibility (NFKC), and the kind of
    punctuation; what is not visible, such as spaces and zero-width characters, does not count."""
    return a == b or _plain(a) == _plain(b)


def _plain(text: str) -> str:
    # decomposed, a text is the same whether or not its marks are joined to their letters
    found = (
        "." if _is_punctuation(character) else character
        for character in unicodedata.normalize("NFKD", text)
        if character not in NOT_SHOWN and unicodedata.category(character)[0] not in "CZ"
    )
    # together they know the final sigma of Greek and the dotless i of Turkish
    return "".join(found).upper().casefold()


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def project_spans(
    parents: Sequence[int], words: Sequence[Span], pieces: Sequence[Span]
) -> list[int]:
    """Return how many pieces each word has.

    A piece that covers several words counts for the word that is the parent of the others, if there
    is one, and otherwise for the first of them. It never counts for a word that stands before the
    word of the previous piece. A piece without characters counts for the word that follows.
    """
    counts = [0] * len(words)
    if pieces and not words:
        raise TreeError(f"there are {len(pieces)} pieces, but no word that they could belong to")
    first = chosen = 0  # the words before `first` end before the piece begins
    for begin, end in pieces:
        while first < len(words) - 1 and words[first][1] <= begin:
            first += 1
        covered = _covered(words, first, begin, max(end, begin + 1))
        chosen = max(chosen, covered[0] if len(covered) == 1 else _parent_of_all(parents, covered))
        counts[chosen] += 1
    return counts


def _covered(words: Sequence[Span], first: int, begin: int, end: int) -> list[int]:
    """Return the words, from `first` on, that share a character with the span (begin, end).

    At the end of the line, where no word does, these are the words of the last token.
    """
    last = first
    while last < len(words) and words[last][0] < end:
        last += 1
    found = [k for k in range(first, last) if words[k][1] > max(begin, words[k][0])]
    return found or [k for k in range(len(words)) if words[k] == words[-1]]


def _parent_of_all(parents: Sequence[int], covered: Sequence[int]) -> int:
    """Return the one of several words that is the parent of all others, or else the first word."""
    for parent in covered:
        if all(parents[word] == parent + 1 for word in covered if word != parent):
            return parent
    return covered[0]


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
