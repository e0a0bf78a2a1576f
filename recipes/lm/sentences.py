"""Split tokenised paragraphs into sentences, with nltk's punkt (as published) or with rules.

The rules are for texts like WikiText, in which a full stop is a separate token at the end of a
sentence, but not in an abbreviation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

ENDS = {".", "!", "?"}
CLOSING = {")", "]", "''", "’", "”"}  # belong to the preceding sentence
QUOTES = {'"', "'"}  # a closing quote if another one is open
NUMBER_POINT, PROTECTED = "@.@", "&numb"  # keeps punkt from splitting numbers, as published

Splitter = Callable[[list[str]], Iterator[list[str]]]


def by_rules(words: list[str]) -> Iterator[list[str]]:
    """Split after `.`, `!` or `?` and closing marks, unless the next word continues a sentence."""
    start = position = 0
    while position < len(words):
        position += 1
        if words[position - 1] not in ENDS:
            continue
        while position < len(words) and closes(words[start : position + 1]):
            position += 1
        if position < len(words) and not goes_on(words[position]):
            yield words[start:position]
            start = position
    if start < len(words):
        yield words[start:]


def closes(words: list[str]) -> bool:
    """Return whether the last of these words is a closing bracket or quote."""
    *before, last = words
    return last in CLOSING or (last in QUOTES and before.count(last) % 2 == 1)


def goes_on(word: str) -> bool:
    """Return whether this word cannot start a sentence."""
    return word in ENDS or word[0].islower() or word in {",", ";", ":"}


def by_punkt(words: list[str]) -> Iterator[list[str]]:
    """Split with nltk's punkt for English; its data must be installed."""
    import nltk

    text = " ".join(words).replace(NUMBER_POINT, PROTECTED)
    for sentence in nltk.sent_tokenize(text):
        yield sentence.replace(PROTECTED, NUMBER_POINT).split()


def punkt_is_there() -> bool:
    """Return whether nltk and the data of punkt are installed, without downloading anything."""
    try:
        import nltk

        nltk.sent_tokenize("One . Two .")
    except (ImportError, LookupError):
        return False
    return True
