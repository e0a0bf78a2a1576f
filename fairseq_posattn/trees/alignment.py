"""Words and pieces meet in the characters of the line that was segmented.

All offsets count the characters of a line without whitespace (`dense`), so that a parser and a
segmenter may cut and space the line as they like. A span is (first, one after last).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import accumulate

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.whitespace import OPEN_BOX, shortened

Span = tuple[int, int]


def dense(text: str) -> str:
    """The characters without whitespace, or what stands for whitespace inside a word."""
    return "".join(text.replace(OPEN_BOX, " ").split())


def spans(tokens: Sequence[str]) -> list[Span]:
    """The span of each token in the dense text that they spell."""
    ends = list(accumulate(len(dense(token)) for token in tokens))
    return list(zip([0, *ends], ends, strict=False))


def word_spans(tokens: Sequence[str], words_of_token: Sequence[int] | None = None) -> list[Span]:
    """The span of each word; the words of a multiword token (im = in + dem) share its span."""
    token_spans = spans(tokens)
    if words_of_token is None:
        return token_spans
    return [
        span for span, count in zip(token_spans, words_of_token, strict=True) for _ in range(count)
    ]


def match(line: str, tokens: Sequence[str], where: str) -> None:
    """An error, begun with `where`, unless the tokens of the tree are those of the line: the same
    characters, up to case, compatibility (NFKC) and the kind of punctuation."""
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
    if _is_punctuation(a) and _is_punctuation(b):
        return True
    a, b = unicodedata.normalize("NFKC", a), unicodedata.normalize("NFKC", b)
    # no one of them knows both the final sigma of Greek and the dotless i of Turkish
    return any(case(a) == case(b) for case in (str.lower, str.upper, str.casefold))


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"


def project_spans(
    parents: Sequence[int], words: Sequence[Span], pieces: Sequence[Span]
) -> list[int]:
    """How many pieces each word has. A piece that covers several words counts for the one that is
    the parent of the others, if there is one, else for the first; never for a word before that of
    the piece before it. A piece without characters counts for the word that follows."""
    counts = [0] * len(words)
    if pieces and not words:
        raise TreeError(f"{len(pieces)} pieces, but no word that they could belong to")
    first = chosen = 0  # words before `first` end before the piece begins
    for begin, end in pieces:
        while first < len(words) - 1 and words[first][1] <= begin:
            first += 1
        covered = _covered(words, first, begin, max(end, begin + 1))
        chosen = max(chosen, covered[0] if len(covered) == 1 else _parent_of_all(parents, covered))
        counts[chosen] += 1
    return counts


def _covered(words: Sequence[Span], first: int, begin: int, end: int) -> list[int]:
    """The words that share a character with begin to end, `first` on; at the end of the line the
    words of the last token."""
    last = first
    while last < len(words) and words[last][0] < end:
        last += 1
    found = [k for k in range(first, last) if words[k][1] > max(begin, words[k][0])]
    return found or [k for k in range(len(words)) if words[k] == words[-1]]


def _parent_of_all(parents: Sequence[int], covered: Sequence[int]) -> int:
    """The one of several words that is the parent of all others, else the first of them."""
    for parent in covered:
        if all(parents[word] == parent + 1 for word in covered if word != parent):
            return parent
    return covered[0]
