"""Replace the entities of a question and its program by placeholders, as NQG does.

Shaw et al. 2021 call the first entity of a question m0 and the second m1. An entity of the program
is replaced if one of its names in the fact base occurs in the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

COUNTRY = ("america", "continental us", "united states", "us", "usa", "country")
UNLISTED = ("springfield", "south dakota", "sd")  # in a question, but not in the fact base
PLACEHOLDERS = ("m0", "m1")


@dataclass
class Question:
    """The words of a question; each consists of one or several words of the corpus.

    parts: for each word, the positions of its words in the corpus.
    placeholders: for each replaced entity, its placeholder.
    """

    words: list[str]
    parts: list[tuple[int, ...]]
    placeholders: dict[str, str] = field(default_factory=dict)

    def replace(self, entity: str, names: Iterable[str]) -> None:
        """Replace the first occurrence of the longest name that occurs in the question."""
        mark = PLACEHOLDERS[any(PLACEHOLDERS[0] in word for word in self.words)]
        for name in sorted(names, key=len, reverse=True):
            wanted = name.split(" ")
            for start in range(len(self.words) - len(wanted) + 1):
                end = start + len(wanted)
                if self.words[start:end] == wanted:
                    self.words[start:end] = [mark]
                    self.parts[start:end] = [sum(self.parts[start:end], ())]
                    self.placeholders[entity] = mark
                    return


def question(leaves: Sequence[str]) -> Question:
    """Return the words of a question from the leaves of its tree, in lower case.

    A leaf such as 's is appended to the preceding word, without the apostrophe.
    """
    words: list[str] = []
    parts: list[tuple[int, ...]] = []
    for k, leaf in enumerate(leaves):
        if leaf.startswith("'") and words:
            words[-1] += leaf.lower()[1:]
            parts[-1] += (k,)
        else:
            words.append(leaf.lower())
            parts.append((k,))
    return Question(words, parts)


def replace_entities(asked: Question, names: Iterable[str], known: dict[str, list[str]]) -> None:
    """Replace the entities of a program in its question, beginning with the longest entity.

    names: the names in the normalized program. known: the entities of `read_entities`.
    """
    there = set(names)
    for entity in known:
        if entity in there:
            asked.replace(entity, known[entity])


def read_entities(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of each entity of a fact base, with the longest entity first.

    An entity is written as in a normalized program, such as stateid(ohio).
    """
    found: dict[str, list[str]] = {}

    def add(kind: str, name: str) -> None:
        found.setdefault(f"{kind}({name})", [name])

    def add_city(city: str, state: str, code: str) -> None:
        found.setdefault(f"cityid({city},_)", [city])
        found.setdefault(f"cityid({city},{code})", [f"{city} {state}", f"{city} {code}"])

    for line in lines:
        quoted = line.split("'")[1::2]
        fact = line.partition("(")[0]
        if fact == "state":
            add("stateid", quoted[0])
            for city in quoted[2:7]:
                add_city(city, *quoted[:2])
        elif fact == "city":
            add_city(quoted[2], *quoted[:2])
        elif fact == "river":
            add("riverid", quoted[0])
        elif fact in ("mountain", "highlow"):
            for place in quoted[2:3] if fact == "mountain" else quoted[2:4]:
                add("placeid", place)
    add_city(*UNLISTED)
    found["countryid(usa)"] = list(COUNTRY)
    return dict(sorted(found.items(), key=lambda entry: -len(entry[0])))
