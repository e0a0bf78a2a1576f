"""Say for each task which sentences it takes, and with which label.

A rule returns a candidate, or the reason why a sentence is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fairseq_posattn.lab.probing.making.counts import END, Counts, ranked, top_relations
from fairseq_posattn.lab.probing.making.settings import BINS, Settings
from fairseq_posattn.lab.probing.making.shown import QUOTED, Shown
from fairseq_posattn.trees.control import Dice

TOP = 19  # classes of TopRelations, beside OTHER
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
        """Return words that have at least 4 letters, and this rank in the corpus or a later one.

        Those that most sentences have exactly once are chosen.
        """
        once = self.counts.once
        late = ranked(self.counts.forms)[self.settings.content_rank - 1 :]
        plain = Counter({form: once[form] for form in late if len(form) >= 4 and form.isalpha()})
        return set(ranked(plain)[: self.settings.content_words])

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
        return set(ranked(self.counts.top)[:TOP])

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        label = top_relations(shown)
        return Candidate(label if label in self.classes else "OTHER", shown.forms)


class BigramShift(Rule):
    """The task asks whether two neighbouring words were swapped."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        if shown.has_quotes:
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
        """Return the words that may stand in the place of a form, in a fixed order.

        They mostly have its part of speech, and their bigrams with both neighbours are about as
        frequent as those of the form: by at most the factor e.
        """
        word = shown.word[place]
        if word is None or shown.upos(word) not in ("NOUN", "VERB"):
            return []
        forms, tag = [*(form.lower() for form in shown.forms), END], shown.tag(word)
        form, counts, (low, high) = forms[place], self.counts, self.settings.odd_counts
        if not low <= counts.forms[form] <= high:
            return []
        after, before = counts.after[forms[place - 1]], counts.before[forms[place + 1]]
        return sorted(
            other
            for other in after.keys() & before.keys()
            if other != form
            and low <= counts.forms[other] <= high
            and 2 * counts.tagged[other, tag] > counts.forms[other]
            and all(abs(math.log(n[other]) - math.log(n[form])) <= 1 for n in (after, before))
        )


class CoordInv(Rule):
    """The task asks whether the two clauses that a conjunction joins were swapped."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        parts = shown.clauses()
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
