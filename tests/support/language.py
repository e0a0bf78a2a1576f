"""Rules for what a person reads: a text has five words or more, and its first sentence a verb.

The docstring of a function begins with a verb in the imperative. Any other text is a command like
that, or a sentence with a subject and a verb. Which words are verbs is listed in verbs.txt; add one
that is missing.
"""

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.commands import PLUGIN, ROOT

FEWEST_WORDS = 5
LIST = Path(__file__).with_name("verbs.txt")
AUXILIARIES = """is are was were be has have had does do did can cannot could must may might will
would shall should came gave got held kept knew made met ran said saw stood took went wrote"""
# After one of these, even a form that may be a noun is a verb: "it lists", "tree providers find".
SUBJECTS = [
    r"\b(?:it|that|which|who|you|we|what)",
    r"\b(?:this|each|every) [\w-]+",
    r"\b(?!this\b)[\w-]{3,}s",
]
# So is a form in -s near the beginning that has an object: "The model turns tokens into features."
# Before one of these words it may be a noun: "The scores of a sentence."
NO_OBJECT = """of for in with and or as at by from to on under over above below beside between
without within that which where while when after before is are was were"""
WORDS = f"use at least {FEWEST_WORDS} words"
IMPERATIVE = "begin with a verb, such as Return or Read"
VERB = "write a sentence with a verb"


class Text(NamedTuple):
    """A text of the package: its file and line, the name that it explains, and the text itself."""

    path: Path
    line: int
    owner: str
    text: str
    imperative: bool = False

    def room(self) -> str:
        """Return the folder or module of the package that the text belongs to."""
        return room(self.path)

    def faults(self) -> Iterator[str]:
        """Yield one line that names the place, the text, and the rules that it breaks."""
        plain = re.sub(r"\(?default: .*", "", self.text)  # this is no part of the sentence
        sentence = re.split(r"\.\s|\n\s*\n", plain.strip(), maxsplit=1)[0]
        verb = begins_with_verb(sentence) if self.imperative else has_verb(sentence)
        broken = [] if len(re.findall(r"\S*[^\W\d_]\S*", plain)) >= FEWEST_WORDS else [WORDS]
        broken += [] if verb else [IMPERATIVE if self.imperative else VERB]
        if broken:
            place = f"{self.path.relative_to(ROOT)}:{self.line}: {self.owner}"
            yield f"{place}: {self.text.strip()!r}: {'; '.join(broken)}"


def room(path: Path) -> str:
    """Return the folder or module of the package that a file belongs to."""
    return path.relative_to(PLUGIN).parts[0].removesuffix(".py")


@cache
def verbs() -> dict[str, bool]:
    """Return the verbs of the list, and for each whether its forms are verbs only."""
    lines = LIST.read_text(encoding="utf-8").split("\n")
    return {line.rstrip("*"): line[-1] != "*" for line in lines if line and line[0] != "#"}


def third_person(verb: str) -> str:
    """Return the form of a verb after `it`."""
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if re.search(r"(s|x|z|ch|sh|o)$", verb) else f"{verb}s"


@cache
def sure_forms() -> set[str]:
    """Return the forms that are verbs wherever they stand in a sentence."""
    sure = {verb for verb, only in verbs().items() if only}
    return {*AUXILIARIES.split(), *sure, *map(third_person, sure)}


@cache
def third_persons() -> set[str]:
    """Return the forms of all verbs after `it`, of which some are nouns as well."""
    return set(map(third_person, verbs()))


@cache
def all_forms() -> set[str]:
    """Return all forms of verbs, of which some are nouns as well."""
    return {*verbs(), *third_persons()}


def begins_with_verb(sentence: str) -> bool:
    """Return whether the first word is a verb in the imperative."""
    first = re.match(r"[\W_]*([\w'-]+)", sentence)
    return bool(first) and first[1].lower() in verbs()


def has_verb(sentence: str) -> bool:
    """Return whether a sentence, or one of its clauses, has a verb."""
    if any(map(begins_with_verb, re.split(r"[:;,(]\s|\sor\s|\sand\s", sentence))):
        return True
    if not sure_forms().isdisjoint(re.findall(r"\w+", sentence.lower())):
        return True
    after = [re.findall(rf"(?={subject} (\w+))", sentence, re.I) for subject in SUBJECTS]
    if any(word in all_forms() for words in after for word in words):
        return True
    words = re.findall(r"[\w'-]+", sentence.lower())
    return any(
        word in third_persons() and object not in NO_OBJECT.split()
        for word, object in itertools.islice(itertools.pairwise(words), 4)
    )
