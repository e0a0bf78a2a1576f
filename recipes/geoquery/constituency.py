"""Convert Penn Treebank-style constituency trees to dependency trees.

The head of a constituent is found by the rules in HEADS, a reduction of those of Collins (1999) to
the categories of GeoQuery: the verb heads its clause, an auxiliary depends on its verb, a
preposition heads its phrase, and a noun heads a noun phrase. A relation is the category of the
largest constituent that the word heads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from entities import Question

from fairseq_posattn.errors import InputError

NOUNS = ("NN", "NNS", "NNP", "NNPS", "NOUN", "PROPN")  # the last two: UPOS
VERBS = ("VB", "VBZ", "VBP", "VBD", "VBG", "VBN", "MD")
CLAUSE = (("VP",), VERBS, ("ADJP", "NP"))
NOMINAL = (NOUNS, ("NP", "WHNP", "QP"), ("PRP", "WP", "WDT", "WRB"), ("JJS", "JJ", "CD", "DT"))
HEADS = {  # the first group with a child decides
    **dict.fromkeys(("S", "SQ", "VP"), CLAUSE),
    "SBARQ": (("SQ", "S"), ("PP", "WHNP")),
    "SBAR": (("S", "SQ"),),
    **dict.fromkeys(("PP", "WHPP"), (("IN", "TO"),)),
    **dict.fromkeys(("NP", "WHNP"), NOMINAL),
}
LAST = (NOUNS, ("JJS", "JJ", "CD", "DT"))  # of these groups, the last child is the head
ROOT = "root"


@dataclass(frozen=True)
class Word:
    """A word with its tag, its parent (counted from 0; -1 for the root) and its relation."""

    form: str
    tag: str
    parent: int
    relation: str


@dataclass(frozen=True)
class Phrase:
    """A constituent: its category, and its children or, for a tag, its word."""

    category: str
    children: tuple[Phrase, ...] = ()
    word: str = ""

    @property
    def head(self) -> Phrase:
        """The child that contains the head, by default the last one."""
        for group in HEADS.get(self.category, ()):
            if there := [child for child in self.children if child.category in group]:
                return there[-1 if group in LAST else 0]
        return self.children[-1]


def read_phrase(text: str) -> Phrase:
    """Parse a tree such as (NP (DT the) (NN city))."""
    marks = re.findall(r"[()]|[^\s()]+", text)
    phrase, end = phrase_at(marks, 0)
    if end != len(marks):
        raise InputError(f"'{' '.join(marks[end:])}' follows the end of the tree")
    return phrase


def phrase_at(marks: Sequence[str], at: int) -> tuple[Phrase, int]:
    """Parse the constituent that starts at mark `at`; return it with its end (exclusive)."""
    if len(marks) < at + 4 or marks[at] != "(":
        raise InputError(f"the tree has no constituent at '{' '.join(marks[at : at + 4])}'")
    category, at = marks[at + 1], at + 2
    if marks[at] not in "()":
        if marks[at + 1] != ")":
            raise InputError(f"the tag {category} has more than one word")
        return Phrase(category, word=marks[at]), at + 2
    children = []
    while marks[at : at + 1] != [")"]:
        child, at = phrase_at(marks, at)
        children.append(child)
    return Phrase(category, tuple(children)), at + 1


def words_of(phrase: Phrase) -> list[Word]:
    """Return the words of a tree as a dependency tree."""
    return [word for _, word in sorted(dependencies(phrase, 0, -1, ROOT))]


def dependencies(
    phrase: Phrase, start: int, parent: int, relation: str
) -> Iterator[tuple[int, Word]]:
    """Yield the words of a constituent with their positions.

    start: position of its first word. parent, relation: those of its head.
    """
    if not phrase.children:
        yield start, Word(phrase.word, phrase.category, parent, relation)
        return
    head = start + offset(phrase)
    for child in phrase.children:
        if child is phrase.head:
            yield from dependencies(child, start, parent, relation)
        else:
            yield from dependencies(child, start, head, child.category)
        start += width(child)


def width(phrase: Phrase) -> int:
    return sum(map(width, phrase.children)) if phrase.children else 1


def offset(phrase: Phrase) -> int:
    """Return the number of words of a constituent that precede its head."""
    if not phrase.children:
        return 0
    at = next(k for k, child in enumerate(phrase.children) if child is phrase.head)
    return sum(map(width, phrase.children[:at])) + offset(phrase.children[at])


def merged(words: Sequence[Word], asked: Question) -> list[Word]:
    """Return the tree over the words of a question.

    If a word consists of several words of the corpus, the highest one determines its tag, parent
    and relation.
    """
    to = {k: new for new, part in enumerate(asked.parts) for k in part}
    found = []
    for form, part in zip(asked.words, asked.parts, strict=True):
        word = words[min(part, key=lambda k: depth(words, k))]
        parent = word.parent if word.parent < 0 else to[word.parent]
        found.append(Word(form, word.tag, parent, word.relation))
    return found


def depth(words: Sequence[Word], at: int) -> int:
    """Return the number of ancestors of a word."""
    above = 0
    while (at := words[at].parent) >= 0:
        above += 1
    return above
