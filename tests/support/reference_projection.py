"""This slow reference puts trees on the pieces of a segmenter through character offsets.

Plain loops over characters, words and pieces, one function for each sentence of the rules; nothing
of the package is used, so that an error there cannot hide here.

A span is (begin, end) in dense characters: those of a text without whitespace and without the open
box, which stands for whitespace inside a word. Words count from 0 here, as indices; `parents` hold
numbers from 1, 0 = root.
"""

import unicodedata
from typing import NamedTuple

OPEN_BOX = "\u2423"

Span = tuple[int, int]


# --- treebanks -----------------------------------------------------------------------


class Sentence(NamedTuple):
    """A raw text, its tokens, the number of words of each token, and parents of words, from 1."""

    text: str
    tokens: list[str]
    words_of_token: list[int]
    parents: list[int]


def read_sentence(lines: list[str]) -> Sentence:
    """One sentence of CoNLL-U; empty nodes (8.1) are stepped over."""
    texts = [line[len("# text = ") :] for line in lines if line.startswith("# text =")]
    sentence = Sentence(texts[0], [], [], [])
    inside = 0  # the last word of the multiword token read last
    for line in lines:
        columns = line.split("\t")
        number, _, last = columns[0].partition("-")
        if line.startswith("#") or "." in number:
            continue
        if last:
            inside = int(last)
            sentence.words_of_token.append(inside - int(number) + 1)
        elif int(number) > inside:
            sentence.words_of_token.append(1)
        if last or int(number) > inside:
            sentence.tokens.append(columns[1])
        if not last:
            sentence.parents.append(int(columns[6]))
    return sentence


# --- characters ----------------------------------------------------------------------


def dense(text: str) -> str:
    """The characters that are neither whitespace nor the open box."""
    kept = []
    for character in text:
        if not character.isspace() and character != OPEN_BOX:
            kept.append(character)
    return "".join(kept)


def is_mark(character: str) -> bool:
    """Return whether a character is punctuation (P*) or a symbol (S*)."""
    return unicodedata.category(character)[0] in "PS"


def same_letter(one: str, other: str) -> bool:
    """Return whether both are the same character, up to case and NFKC."""
    one, other = unicodedata.normalize("NFKC", one), unicodedata.normalize("NFKC", other)
    if one.lower() == other.lower() or one.upper() == other.upper():
        return True
    return one.casefold() == other.casefold()


def same_character(one: str, other: str) -> bool:
    """Return whether both are the same letter, or both are punctuation or symbols."""
    return same_letter(one, other) or (is_mark(one) and is_mark(other))


def matches(line: str, tokens: list[str]) -> bool:
    """Whether the tokens spell the line, character by character."""
    of_line, of_tokens = dense(line), dense("".join(tokens))
    if len(of_line) != len(of_tokens):
        return False
    return all(same_character(of_line[k], of_tokens[k]) for k in range(len(of_line)))


# --- spans ---------------------------------------------------------------------------


def word_spans(tokens: list[str], words_of_token: list[int] | None = None) -> list[Span]:
    """Return the span of each word: that of its token, which all words of the token share."""
    spans = []
    begin = 0
    for k in range(len(tokens)):
        end = begin + len(dense(tokens[k]))
        words = 1 if words_of_token is None else words_of_token[k]
        for _ in range(words):
            spans.append((begin, end))
        begin = end
    return spans


def subword_nmt_texts(pieces: list[str], separator: str = "@@") -> list[str]:
    """What each piece spells: without the separator that ends a piece which is not the last."""
    texts = []
    for k in range(len(pieces)):
        if k < len(pieces) - 1 and pieces[k].endswith(separator):
            texts.append(pieces[k][: -len(separator)])
        else:
            texts.append(pieces[k])
    return texts


def subword_nmt_spans(line: str, pieces: list[str], separator: str = "@@") -> list[Span]:
    """The span of each piece of subword-nmt; together they spell the line."""
    texts = subword_nmt_texts(pieces, separator)
    assert dense("".join(texts)) == dense(line), (line, pieces)
    return word_spans(texts)


def sentencepiece_spans(processor, line: str) -> list[Span]:
    """Return the span of each piece of sentencepiece, from its own offsets.

    They are asked for in bytes of UTF-8, so that characters are counted here and nowhere else.
    """
    found = processor.encode(line, return_type="offset_mapping", return_bytes=True)
    spans = []
    for begin, end in found["offsets"]:
        before = line.encode()[:begin].decode()
        upto = line.encode()[:end].decode()
        spans.append((len(dense(before)), len(dense(upto))))
    return spans


# --- words of pieces -----------------------------------------------------------------


def share(one: Span, other: Span) -> bool:
    """Whether there is a character that is in both spans."""
    return max(one[0], other[0]) < min(one[1], other[1])


def words_that_share(word_spans: list[Span], piece: Span) -> list[int]:
    """Return all words whose span shares a character with the piece."""
    return [word for word in range(len(word_spans)) if share(word_spans[word], piece)]


def words_of_last_token(word_spans: list[Span]) -> list[int]:
    """The last word and those that share its span."""
    found = []
    for word in range(len(word_spans)):
        if word_spans[word] == word_spans[-1]:
            found.append(word)
    return found


def words_of_piece(word_spans: list[Span], piece: Span) -> list[int]:
    """Those that share a character; for a piece without characters those that follow."""
    begin, end = piece
    if begin < end:
        return words_that_share(word_spans, piece)
    following = words_that_share(word_spans, (begin, begin + 1))
    return following or words_of_last_token(word_spans)


def chosen_word(parents: list[int], words: list[int]) -> int:
    """Of several words the one that is the parent of all the others, else the first."""
    for word in words:
        others = [other for other in words if other != word]
        if all(parents[other] == word + 1 for other in others):
            return word
    return words[0]


def words_of_pieces(
    parents: list[int], word_spans: list[Span], piece_spans: list[Span]
) -> list[int]:
    """Return the word of each piece, never before that of the piece before it."""
    chosen = []
    for piece in piece_spans:
        word = chosen_word(parents, words_of_piece(word_spans, piece))
        if chosen and word < chosen[-1]:
            word = chosen[-1]
        chosen.append(word)
    return chosen


def project(parents: list[int], word_spans: list[Span], piece_spans: list[Span]) -> list[int]:
    """Return the number of pieces of each word."""
    words = words_of_pieces(parents, word_spans, piece_spans)
    return [words.count(word) for word in range(len(parents))]
