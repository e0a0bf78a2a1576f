"""Define the rules that select and label the sentences of each task.

A rule returns a candidate, or the reason why it excludes a sentence.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from fairseq_posattn.probing.making.corpus import END, QUOTED, Counts, Shown, ranked
from fairseq_posattn.probing.making.settings import BINS, Settings
from fairseq_posattn.trees.control import Dice
from fairseq_posattn.trees.drawing import depths

TOP = 19  # classes of TopRelations, in addition to OTHER
IN_CORPUS = "its changed form is also a sentence of the corpus"
Cells = Mapping[tuple[str, str], int]  # (stratum, label) -> number of candidates


@dataclass(frozen=True)
class Candidate:
    """A labelled sentence that a task can use.

    stratum: a group of sentences within which all labels are sampled equally often.
    form: sentences with the same form are assigned to the same split; "" means no restriction.
    """

    label: str
    words: list[str]
    stratum: str = ""
    form: str = ""


class Rule:
    """The base class of the rules, which are initialised with the counts of a corpus.

    needs_tags: whether the rule requires parts of speech or features.
    limits_forms: whether --form-counts limits the number of sentences per form.
    """

    needs_tags = False
    limits_forms = False

    def __init__(self, counts: Counts, settings: Settings):
        self.counts, self.settings = counts, settings

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        """Return the labelled (and possibly changed) sentence, or the reason for its exclusion."""
        raise NotImplementedError

    def chosen(self, cells: Cells) -> set[str]:
        """Select the labels that the task uses, given the numbers of candidates with each label."""
        return {label for _, label in cells}


class SentLen(Rule):
    """Task: predict the sentence length, which is divided into bins."""

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        size = len(shown.forms)
        label = next(k for k, (low, high) in enumerate(BINS) if low <= size <= high)
        return Candidate(str(label), shown.forms)


class WordContent(Rule):
    """Task: predict which one of many target words occurs in the sentence."""

    @cached_property
    def targets(self) -> set[str]:
        """The target words.

        They have at least 4 letters and a frequency rank of at least --content-rank. Among
        them, the words that occur exactly once in the most sentences are chosen.
        """
        once = self.counts.once
        late = ranked(self.counts.forms)[self.settings.content_rank - 1 :]
        plain = Counter({form: once[form] for form in late if len(form) >= 4 and form.isalpha()})
        return set(ranked(plain)[: self.settings.content_words])

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        found = [form.lower() for form in shown.forms if form.lower() in self.targets]
        if len(found) != 1:
            return "it does not contain exactly one of the target words"
        return Candidate(found[0], shown.forms)

    def chosen(self, cells: Cells) -> set[str]:
        """Return the words that occur in enough sentences for all splits."""
        shares = self.settings.shares
        least = math.ceil(sum(shares) / min(shares))
        return {word for (_, word), count in cells.items() if count >= least}


class TreeDepth(Rule):
    """Task: predict the tree depth; for each sentence length, all depths are equally frequent."""

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        depth = max(depths(shown.sentence.parents or ()))
        return Candidate(str(depth), shown.forms, stratum=str(len(shown.forms)))

    def chosen(self, cells: Cells) -> set[str]:
        """Return the range of depths that maximises n * log2(number of depths).

        n is the number of sentences, equally many of each depth, limited to the number requested.
        """
        depths = sorted({int(label) for _, label in cells})
        lengths = {stratum for stratum, _ in cells}

        def bits(low: int, high: int) -> float:
            least = [
                min(cells.get((length, str(depth)), 0) for depth in range(low, high + 1))
                for length in lengths
            ]
            classes = high - low + 1
            return min(sum(least) * classes, sum(self.settings.sizes)) * math.log2(classes)

        ranges = [(low, high) for low in depths for high in depths if low < high]
        if not ranges:
            return set()
        low, high = max(ranges, key=lambda pair: (bits(*pair), pair))
        return {str(depth) for depth in range(low, high + 1)}


class TopRelations(Rule):
    """Task: predict the sequence of relations of the root's children."""

    @cached_property
    def classes(self) -> set[str]:
        return set(ranked(self.counts.top)[:TOP])

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        label = shown.top_relations()
        return Candidate(label if label in self.classes else "OTHER", shown.forms)


class BigramShift(Rule):
    """Task: detect whether two adjacent words were swapped."""

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
            return "after its first word, no two different words are adjacent (without punctuation)"
        place, words = places[dice.below(len(places))], list(shown.forms)
        if dice.happens(0.5):
            return Candidate("O", words)
        words[place : place + 2] = words[place + 1], words[place]
        return IN_CORPUS if self.counts.has(words) else Candidate("I", words)


class Tense(Rule):
    """Task: predict the tense of the root."""

    needs_tags = limits_forms = True
    labels: ClassVar = {"Past": "PAST", "Pres": "PRES"}

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        if shown.feature(shown.root, "VerbForm") not in ("", "Fin"):  # an auxiliary has the tense
            return "its root is not a finite verb"
        label = self.labels.get(shown.feature(shown.root, "Tense"))
        if label is None:
            return "its root has neither past nor present tense"
        return Candidate(label, shown.forms, form=shown.lower(shown.root))


class SubjNum(Rule):
    """Task: predict the number (singular or plural) of the root's only subject."""

    needs_tags = limits_forms = True
    relation = "nsubj"
    labels: ClassVar = {"Sing": "NN", "Plur": "NNS"}

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        found = shown.children(shown.root, self.relation)
        if len(found) != 1:
            return f"its root does not have exactly one {self.relation}"
        if shown.tags[found[0]].upos != "NOUN":
            return f"the {self.relation} of its root is not a common noun"
        label = self.labels.get(shown.feature(found[0], "Number"))
        if label is None:
            return f"the {self.relation} of its root is neither singular nor plural"
        return Candidate(label, shown.forms, form=shown.lower(found[0]))


class ObjNum(SubjNum):
    """Task: predict the number of the root's only object."""

    relation = "obj"


class OddManOut(Rule):
    """Task: detect whether a noun or verb was replaced by a word that does not fit."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        places = {
            place: others
            for place in range(1, len(shown.forms))
            if (others := self.replacements(shown, place))
        }
        if not places:
            return "it has no noun or verb with a replacement in bigrams of similar frequency"
        place = list(places)[dice.below(len(places))]
        other = places[place][dice.below(len(places[place]))]
        words = list(shown.forms)
        if dice.happens(0.5):
            return Candidate("O", words, form=words[place].lower())
        words[place] = self.counts.spellings.get(other, other)
        return IN_CORPUS if self.counts.has(words) else Candidate("C", words, form=other)

    def replacements(self, shown: Shown, place: int) -> list[str]:
        """Return the words that may replace the form at this position, in alphabetical order.

        More than half of their occurrences must have the part of speech of the form. The
        frequencies of their bigrams with both neighbours may differ from those of the form by at
        most a factor of e.
        """
        word = shown.word[place]
        if word is None or shown.tags[word].upos not in ("NOUN", "VERB"):
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
    """Task: detect whether two coordinated clauses were swapped."""

    needs_tags = True

    def candidate(self, shown: Shown, dice: Dice) -> Candidate | str:
        parts = shown.clauses()
        if isinstance(parts, str):
            return parts
        first, joint, second, end = parts
        longer = (len(first) > len(second)) - (len(first) < len(second))
        if dice.happens(0.5):
            return Candidate("O", shown.forms, stratum=STRATA[longer])
        if first[0][:1].isupper():  # capitalise the new first word of the sentence instead
            second = [second[0][:1].upper() + second[0][1:], *second[1:]]
            if shown.tags[0].upos != "PROPN":
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
