"""Say for each task which sentences it takes, and with which label.

A rule returns a candidate, or the reason why a sentence is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fairseq_posattn.lab.probing.making.counts import END, Counts, top_relations
from fairseq_posattn.lab.probing.making.settings import BINS, Settings
from fairseq_posattn.lab.probing.making.shown import Shown
from fairseq_posattn.trees.control import Dice

TOP = 19  # classes of TopRelations, beside OTHER
QUOTES = {'"', "``", "''", "“", "”", "„", "«", "»"}
QUOTED = "it has double quotes"
IN_CORPUS = "what it would be changed to is a sentence of the corpus, too"
Cells = Mapping[tuple[str, str], int]  # stratum and label -> how many candidates there are


@dataclass(frozen=True)
class Candidate:
    """A candidate is a sentence that a task can take.

    stratum: each label gets equally many sentences of a stratum.
    form: sentences with the same form belong to the same split; "" where that does not matter.
    """

    label: str
    words: list[str]
    stratum: str = ""
    form: str = ""


class Rule:
    """A rule is made for a corpus that was counted.

    needs_tags: whether it asks for parts of speech or features.
    limits_forms: whether --form-counts says how many sentences of a form are taken.
    """

    needs_tags = False
    limits_forms = False

    def __init__(self, counts: Counts, settings: Settings):
        self.counts, self.settings = counts, settings

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        """Return the candidate that a sentence is, or why it is left out."""
        raise NotImplementedError

    def chosen(self, cells: Cells) -> set[str]:
        """Return the labels that the task has."""
        return {label for _, label in cells}


class SentLen(Rule):
    """The task asks in which bin the number of words lies."""

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        size = len(shown.forms)
        label = next(k for k, (low, high) in enumerate(BINS) if low <= size <= high)
        return Candidate(str(label), shown.forms)


class WordContent(Rule):
    """The task asks which of many words occurs in the sentence."""

    @cached_property
    def targets(self) -> set[str]:
        """Return the words of the task."""
        settings = self.settings
        return set(self.counts.content_words(settings.content_rank, settings.content_words))

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        found = [form.lower() for form in shown.forms if form.lower() in self.targets]
        if len(found) != 1:
            return "it has not exactly one of the words"
        return Candidate(found[0], shown.forms)

    def chosen(self, cells: Cells) -> set[str]:
        """Return the words that have enough sentences for each split; all get equally many."""
        shares = self.settings.shares
        least = math.ceil(sum(shares) / min(shares))
        return {word for (_, word), count in cells.items() if count >= least}


class TreeDepth(Rule):
    """The task asks how deep the tree is; of each length, all depths are equally frequent."""

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        return Candidate(str(shown.depth), shown.forms, stratum=str(len(shown.forms)))

    def chosen(self, cells: Cells) -> set[str]:
        """Return the depths whose labels hold most bits: many sentences, and many depths."""
        depths = sorted({int(label) for _, label in cells})
        lengths = {stratum for stratum, _ in cells}

        def bits(low: int, high: int) -> float:
            least = [
                min(cells.get((length, str(depth)), 0) for depth in range(low, high + 1))
                for length in lengths
            ]
            classes = high - low + 1
            return min(sum(least) * classes, self.settings.total) * math.log2(classes)

        ranges = [(low, high) for low in depths for high in depths if low < high]
        if not ranges:
            return set()
        low, high = max(ranges, key=lambda pair: (bits(*pair), pair))
        return {str(depth) for depth in range(low, high + 1)}


class TopRelations(Rule):
    """The task asks for the relations of the root's children."""

    @cached_property
    def classes(self) -> set[str]:
        """Return the commonest sequences of relations."""
        return set(self.counts.commonest_top(TOP))

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        label = top_relations(shown)
        return Candidate(label if label in self.classes else "OTHER", shown.forms)


class BigramShift(Rule):
    """The task asks whether two neighbouring words were swapped."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        if has_quotes(shown):
            return QUOTED
        plain = [not shown.is_punctuation(place) for place in range(len(shown.forms))]
        lower = [form.lower() for form in shown.forms]
        places = [
            place
            for place in range(1, len(shown.forms) - 1)
            if plain[place] and plain[place + 1] and lower[place] != lower[place + 1]
        ]
        if not places:
            return "it has no two words side by side, without punctuation, after the first word"
        place, words = places[dice.below(len(places))], list(shown.forms)
        if dice.happens(0.5):
            return Candidate("O", words)
        words[place : place + 2] = words[place + 1], words[place]
        return IN_CORPUS if self.counts.has(words) else Candidate("I", words)


class Tense(Rule):
    """The task asks for the tense of the root."""

    needs_tags = limits_forms = True
    labels: ClassVar = {"Past": "PAST", "Pres": "PRES"}

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        features = shown.features(shown.root)
        if features.get("VerbForm", "Fin") != "Fin":  # an auxiliary has the tense of the sentence
            return "its root is no finite verb"
        label = self.labels.get(features.get("Tense", ""))
        if label is None:
            return "its root is neither past nor present"
        return Candidate(label, shown.forms, form=shown.lower(shown.root))


class NumberOf(Rule):
    """The task asks for the number of the only subject or object of the root."""

    needs_tags = limits_forms = True
    relation = "nsubj"
    labels: ClassVar = {"Sing": "NN", "Plur": "NNS"}

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        found = shown.children(shown.root, self.relation)
        if len(found) != 1:
            return f"its root has not exactly one {self.relation}"
        if shown.upos(found[0]) != "NOUN":
            return f"the {self.relation} of its root is no common noun"
        label = self.labels.get(shown.features(found[0]).get("Number", ""))
        if label is None:
            return f"the {self.relation} of its root is neither singular nor plural"
        return Candidate(label, shown.forms, form=shown.lower(found[0]))


class SubjNum(NumberOf):
    """The task asks for the number of the subject."""


class ObjNum(NumberOf):
    """The task asks for the number of the object."""

    relation = "obj"


class OddManOut(Rule):
    """The task asks whether a noun or a verb was replaced by another that does not fit."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        places = {
            place: others
            for place in range(1, len(shown.forms))
            if (others := self.replacements(shown, place))
        }
        if not places:
            return "no noun or verb has a replacement whose bigrams are about as frequent"
        place = list(places)[dice.below(len(places))]
        other = places[place][dice.below(len(places[place]))]
        words = list(shown.forms)
        if dice.happens(0.5):
            return Candidate("O", words, form=words[place].lower())
        words[place] = self.counts.spellings.get(other, other)
        return IN_CORPUS if self.counts.has(words) else Candidate("C", words, form=other)

    def replacements(self, shown: Shown, place: int) -> list[str]:
        """Return what may stand in the place of a form."""
        word = shown.word[place]
        if word is None or shown.upos(word) not in ("NOUN", "VERB"):
            return []
        forms = [form.lower() for form in shown.forms]
        low, high = self.settings.odd_counts
        if not low <= self.counts.forms[forms[place]] <= high:
            return []
        right = forms[place + 1] if place + 1 < len(forms) else END
        return self.counts.replacements(
            forms[place - 1], forms[place], right, shown.tag(word), (low, high)
        )


class CoordInv(Rule):
    """The task asks whether the two clauses that a conjunction joins were swapped."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        parts = clauses(shown)
        if isinstance(parts, str):
            return parts
        first, joint, second, end = parts
        longer = (len(first) > len(second)) - (len(first) < len(second))
        if dice.happens(0.5):
            return Candidate("O", shown.forms, stratum=STRATA[longer])
        if first[0][:1].isupper():  # the sentence begins with another word now
            second = [second[0][:1].upper() + second[0][1:], *second[1:]]
            if shown.upos(0) != "PROPN":
                first = [self.counts.inside(first[0]), *first[1:]]
        words = [*second, *joint, *first, *end]
        return IN_CORPUS if self.counts.has(words) else Candidate("I", words, STRATA[-longer])


STRATA = {-1: "the second clause is longer", 0: "equal", 1: "the first clause is longer"}


def has_quotes(shown: Shown) -> bool:
    """Return whether a sentence has double quotes."""
    return any(quote in form for form in shown.forms for quote in QUOTES)


def clauses(shown: Shown) -> tuple[list[str], list[str], list[str], list[str]] | str:
    """Return the first clause, the conjunction, the second clause, and the end of a sentence.

    A comma before the conjunction belongs to it. The answer may be why there are no such parts.
    """
    if has_quotes(shown):
        return QUOTED
    if shown.is_punctuation(0):
        return "it begins with punctuation"
    joints = [word for word, name in enumerate(shown.relations) if name == "cc"]
    if len(joints) != 1:
        return "it has not exactly one coordinating conjunction"
    second, root = shown.parents[joints[0]], shown.root
    if shown.relations[second] != "conj" or shown.parents[second] != root:
        return "its conjunction does not join something to the root"
    if len(shown.children(root, "conj")) > 1:
        return "it joins more than two clauses"
    if not all(shown.children(word, "nsubj", "csubj") for word in (root, second)):
        return "its conjunction does not join two clauses with subjects"
    inside = {shown.place[word] for word in shown.below(second)}
    at = shown.place[joints[0]]
    begin = at - 1 if at and shown.is_punctuation(at - 1) else at
    end = len(shown.forms)
    while end > at and shown.is_punctuation(end - 1):
        end -= 1
    parts = shown.forms[:begin], shown.forms[at + 1 : end]
    if not set(range(at, end)) <= inside or inside - set(range(begin, len(shown.forms))):
        return "its second clause is not what follows the conjunction"
    if min(map(len, parts)) < 2:
        return "one of its clauses has a single word"
    return parts[0], shown.forms[begin : at + 1], parts[1], shown.forms[end:]


RULES: dict[str, Callable[[Counts, Settings], Rule]] = {
    "SentLen": SentLen,
    "WC": WordContent,
    "TreeDepth": TreeDepth,
    "TopRelations": TopRelations,
    "BShift": BigramShift,
    "Tense": Tense,
    "SubjNum": SubjNum,
    "ObjNum": ObjNum,
    "SOMO": OddManOut,
    "CoordInv": CoordInv,
}
