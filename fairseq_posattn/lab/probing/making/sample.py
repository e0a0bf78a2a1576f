"""Draw balanced samples from a stream of candidates, and divide them into splits.

The key of a sentence is a seeded hash of its text. A sample consists of the sentences with the
smallest keys, so it does not depend on the order of the corpus.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from fairseq_posattn.lab.probing.making.rules import Candidate, Rule
from fairseq_posattn.lab.probing.making.settings import Settings
from fairseq_posattn.lab.probing.task_files import SPLITS
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

    def __lt__(self, other: object) -> bool:  # reversed, so that heapq pops the largest key
        return isinstance(other, Kept) and self.key > other.key


@dataclass
class Cell:
    """The candidates with the smallest keys for one combination of label, stratum and form."""

    heap: list[Kept] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    seen: int = 0

    def add(self, kept: Kept, limit: int) -> bool:
        """Add a candidate unless its key is already present; return whether it was new."""
        self.seen += 1
        if kept.key in self.keys:
            return False
        heapq.heappush(self.heap, kept)
        self.keys.add(kept.key)
        self.trim(limit)
        return True

    def trim(self, limit: int) -> None:
        while len(self.heap) > limit:
            self.keys.remove(heapq.heappop(self.heap).key)


class Sample:
    """The sample of sentences for one task.

    added: the number of candidates that were ever added, including those that were dropped later.
    """

    def __init__(self, rule: Rule, settings: Settings):
        self.rule, self.settings = rule, settings
        self.cells: dict[tuple[str, str, str], Cell] = defaultdict(Cell)
        self.most = SLACK * settings.total
        self.limit = settings.form_counts[1] if rule.limits_forms else self.most
        self.kept = self.added = 0

    def add(self, key: int, candidate: Candidate, sentence: Sentence) -> bool:
        """Add a candidate; return whether its sentence is new."""
        cell = self.cells[candidate.stratum, candidate.label, candidate.form]
        before = len(cell.heap)
        is_new = cell.add(Kept(key, candidate, sentence), self.limit)
        self.added += is_new
        self.kept += len(cell.heap) - before
        if self.kept > self.most:
            sizes = [len(cell.heap) for cell in self.cells.values()]
            self.trim(level(sizes, int(AFTER_TRIMMING * self.most)))
        return is_new

    def trim(self, limit: int) -> None:
        self.limit = min(self.limit, limit)
        for cell in self.cells.values():
            cell.trim(self.limit)
        self.kept = sum(len(cell.heap) for cell in self.cells.values())

    def splits(self) -> dict[str, list[Kept]]:
        """Return the sentences of each split, with all labels equally frequent."""
        # Unlike earlier limits, which are higher, this one depends only on the corpus.
        self.trim(level([c.seen for c in self.cells.values()], int(AT_THE_END * self.most)))
        has_forms = any(form for _, _, form in self.cells)
        found = self.by_form() if has_forms else self.by_strata()
        return {split: by_key(kept) for split, kept in found.items()}

    def candidates(self) -> Iterator[Kept]:
        """Yield candidates in the order of their keys, without duplicates.

        Candidates are duplicates if their original or changed sentences are equal, ignoring case.
        """
        texts: set[str] = set()
        sources: set[str] = set()
        for kept in by_key(kept for _, cell in sorted(self.cells.items()) for kept in cell.heap):
            text = " ".join(kept.candidate.words).lower()
            source = str(kept.sentence).lower()
            if text not in texts and source not in sources:
                texts.add(text)
                sources.add(source)
                yield kept

    def forms(self) -> dict[str, list[Kept]]:
        """Group the candidates by form; if the rule limits forms, apply --form-counts."""
        found: dict[str, list[Kept]] = defaultdict(list)
        for kept in self.candidates():
            found[kept.candidate.form].append(kept)
        if not self.rule.limits_forms:
            return found
        low, high = self.settings.form_counts
        return {form: kept[:high] for form, kept in found.items() if len(kept) >= low}

    def by_form(self) -> dict[str, list[Kept]]:
        """Assign each form to a split, and balance the labels within each split."""
        forms = self.forms()
        totals = Counter(kept.candidate.label for of_form in forms.values() for kept in of_form)
        if len(totals) < 2:
            return {split: [] for split in SPLITS}
        groups: dict[tuple[str, str], list[Kept]] = defaultdict(list)
        shares = dict(zip(SPLITS, self.settings.shares, strict=True))
        seed = str(self.settings.seed)
        for form in sorted(forms, key=lambda form: Dice(seed, form).below(2**63)):
            of_form = forms[form]
            counts = Counter(kept.candidate.label for kept in of_form)
            most = max(sorted(counts), key=lambda label: counts[label])
            wanted = {split: shares[split] * totals[most] for split in SPLITS}
            # the split that is furthest below its share
            split = min(SPLITS, key=lambda s: len(groups[s, most]) / wanted[s])
            for kept in of_form:
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
