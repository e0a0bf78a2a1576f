"""Draw balanced samples from a stream of candidates, and divide them into splits.

The key of a sentence is a seeded hash of its text. A sample consists of the sentences with the
smallest keys, so it does not depend on the order of the corpus.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from fairseq_posattn.probing.making.corpus import Counts, Shown
from fairseq_posattn.probing.making.rules import RULES, Candidate
from fairseq_posattn.probing.making.settings import Settings
from fairseq_posattn.probing.tasks import SPLITS, ProbingTask
from fairseq_posattn.trees.control import Dice
from fairseq_posattn.trees.sentence import Sentence

UNUSED = ""
SLACK = 4  # maximum number of candidates in memory, relative to the size of a task
AFTER_TRIMMING, AT_THE_END = 0.8, 0.6  # fractions of this maximum


class Kept(NamedTuple):
    """A candidate with its key and its original sentence."""

    key: int
    candidate: Candidate
    sentence: Sentence


class Sample:
    """The sample of sentences for one task.

    cells: the candidates with the smallest keys, by key, for each stratum, label and form.
    seen: the number of candidates for each stratum, label and form.
    added: the number of candidates that were ever added, including those that were dropped later.
    left_out: the number of excluded sentences, by reason.
    """

    def __init__(self, task: ProbingTask, counts: Counts, settings: Settings):
        self.task, self.rule, self.settings = task, RULES[task.name](counts, settings), settings
        self.cells: dict[tuple[str, str, str], dict[int, Kept]] = defaultdict(dict)
        self.keys: dict[tuple[str, str, str], list[int]] = defaultdict(list)  # heaps, negated
        self.seen: Counter[tuple[str, str, str]] = Counter()
        self.most = SLACK * sum(settings.sizes)
        self.limit = settings.form_counts[1] if self.rule.limits_forms else self.most
        self.kept = self.added = 0
        self.left_out: Counter[str] = Counter()

    def take(self, shown: Shown) -> None:
        """Add the candidate that the rule makes of a sentence, or count why there is none."""
        dice = Dice(str(self.settings.seed), self.task.name, " ".join(shown.forms))
        key = dice.below(2**63)
        found = self.rule.candidate(shown, dice)
        if isinstance(found, str):
            self.left_out[found] += 1
            return
        place = found.stratum, found.label, found.form
        self.seen[place] += 1
        if key in self.cells[place]:
            self.left_out["it occurs again"] += 1
            return
        self.cells[place][key] = Kept(key, found, shown.sentence)
        heapq.heappush(self.keys[place], -key)
        self.added += 1
        self.kept += 1
        self.trim([place], self.limit)
        if self.kept > self.most:
            sizes = map(len, self.cells.values())
            self.trim(self.cells, level(sizes, int(AFTER_TRIMMING * self.most)))

    def trim(self, places: Iterable[tuple[str, str, str]], limit: int) -> None:
        """Drop the candidates with the largest keys, so that cells do not exceed the limit."""
        self.limit = min(self.limit, limit)
        for place in places:
            while len(self.keys[place]) > self.limit:
                del self.cells[place][-heapq.heappop(self.keys[place])]
                self.kept -= 1

    def splits(self) -> dict[str, list[Kept]]:
        """Return the sentences of each split, with all labels equally frequent."""
        # Unlike earlier limits, which are higher, this one depends only on the corpus.
        self.trim(self.cells, level(self.seen.values(), int(AT_THE_END * self.most)))
        has_forms = any(form for _, _, form in self.cells)
        found = self.by_form() if has_forms else self.by_strata()
        return {split: by_key(kept) for split, kept in found.items()}

    def candidates(self) -> Iterator[Kept]:
        """Yield candidates in the order of their keys, without duplicates.

        Candidates are duplicates if their original or changed sentences are equal, ignoring case.
        """
        texts: set[str] = set()
        sources: set[str] = set()
        for kept in by_key(
            kept for _, cell in sorted(self.cells.items()) for kept in cell.values()
        ):
            text = " ".join(kept.candidate.words).lower()
            source = str(kept.sentence).lower()
            if text not in texts and source not in sources:
                texts.add(text)
                sources.add(source)
                yield kept

    def by_form(self) -> dict[str, list[Kept]]:
        """Assign each form to a split, and balance the labels within each split.

        If the rule limits forms, --form-counts applies.
        """
        forms: dict[str, list[Kept]] = defaultdict(list)
        for kept in self.candidates():
            forms[kept.candidate.form].append(kept)
        if self.rule.limits_forms:
            low, high = self.settings.form_counts
            forms = {form: kept[:high] for form, kept in forms.items() if len(kept) >= low}
        totals = Counter(kept.candidate.label for of_form in forms.values() for kept in of_form)
        if len(totals) < 2:
            return {split: [] for split in SPLITS}
        groups: dict[tuple[str, str], list[Kept]] = defaultdict(list)
        shares = dict(zip(SPLITS, self.settings.shares, strict=True))
        seed = str(self.settings.seed)
        for form in sorted(forms, key=lambda form: Dice(seed, form).below(2**63)):
            counts = Counter(kept.candidate.label for kept in forms[form])
            most = max(sorted(counts), key=lambda label: counts[label])
            # the split that is furthest below its share
            split = min(SPLITS, key=lambda s: len(groups[s, most]) / (shares[s] * totals[most]))
            for kept in forms[form]:
                groups[split, kept.candidate.label].append(kept)
        found = {}
        for split, size in zip(SPLITS, self.settings.sizes, strict=True):
            of_labels = [groups[split, label] for label in sorted(totals)]
            least = min([size // len(totals), *map(len, of_labels)])
            found[split] = [kept for of_label in of_labels for kept in by_key(of_label)[:least]]
        return found

    def by_strata(self) -> dict[str, list[Kept]]:
        """Return splits in which, within each stratum, all labels are equally frequent."""
        strata: dict[str, dict[str, list[Kept]]] = defaultdict(lambda: defaultdict(list))
        for kept in self.candidates():
            strata[kept.candidate.stratum][kept.candidate.label].append(kept)
        sizes = {(s, label): len(kept) for s, of in strata.items() for label, kept in of.items()}
        labels = sorted(self.rule.chosen(sizes))
        if len(labels) < 2:
            return {split: [] for split in SPLITS}
        least = {s: min(len(of[label]) for label in labels) for s, of in sorted(strata.items())}
        total = sum(least.values())
        wanted = dict(zip(SPLITS, self.settings.of_each(total, len(labels)), strict=True))
        turns = iter(interleaved({**wanted, UNUSED: total - sum(wanted.values())}))
        found: dict[str, list[Kept]] = {split: [] for split in SPLITS}
        for stratum, number in least.items():
            for k, split in enumerate(islice(turns, number)):
                if split != UNUSED:
                    found[split] += [strata[stratum][label][k] for label in labels]
        return found


def by_key(kept: Iterable[Kept]) -> list[Kept]:
    return sorted(kept, key=lambda one: one.key)


def level(sizes: Iterable[int], most: int) -> int:
    """Return the largest limit for which the sum of min(size, limit) is at most `most`."""
    rest, left = most, sorted(sizes)
    for number, size in enumerate(left):
        share = rest // (len(left) - number)
        if size > share:
            return max(1, share)
        rest -= size
    return max([1, *left])


def interleaved(counts: Mapping[str, int]) -> list[str]:
    """Return a list that contains each name `counts[name]` times, spread evenly."""
    turns = [((k + 0.5) / count, name) for name, count in counts.items() for k in range(count)]
    return [name for _, name in sorted(turns)]
