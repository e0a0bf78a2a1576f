"""Split a tokenised paragraph into sentences, with nltk's punkt as published or with our rules.

The rules are made for texts like WikiText, in which a full stop that ends a sentence is a token of
its own, while that of an abbreviation is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

ENDS = {".", "!", "?"}
CLOSING = {")", "]", "''", "’", "”"}  # they belong to the sentence that they follow
QUOTES = {'"', "'"}  # one closes if another one is open
NUMBER_POINT, PROTECTED = "@.@", "&numb"  # punkt must not split numbers, as published

Splitter = Callable[[list[str]], Iterator[list[str]]]


def by_rules(words: list[str]) -> Iterator[list[str]]:
    """End a sentence after a stop and what it closes, unless the next word is in lower case."""
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
    """Return whether the last of these words belongs to what stands before it."""
    *before, last = words
    return last in CLOSING or (last in QUOTES and before.count(last) % 2 == 1)


def goes_on(word: str) -> bool:
    """Return whether no sentence can begin with this word."""
    return word in ENDS or word[0].islower() or word in {",", ";", ":"}


def by_punkt(words: list[str]) -> Iterator[list[str]]:
    """Split by nltk's punkt for English, whose data must be there."""
    import nltk

    text = " ".join(words).replace(NUMBER_POINT, PROTECTED)
    for sentence in nltk.sent_tokenize(text):
        yield sentence.replace(PROTECTED, NUMBER_POINT).split()


def punkt_is_there() -> bool:
    """Return whether nltk and the data of its sentence splitter are there; nothing is
    downloaded."""
    try:
        import nltk

        nltk.sent_tokenize("One . Two .")
    except (ImportError, LookupError):
        return False
    return True
