"""Collect the corpus statistics that the task rules require."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.lab.probing.making.shown import Shown

END = "</s>"  # follows the last word in bigrams


@dataclass
class Counts:
    """The counts of a corpus; all forms except those in `written` are lowercased.

    texts: a hash of each sentence.
    forms: the frequency of each form.
    tagged: the frequency of each form with each part of speech.
    written: the frequency of each spelling, excluding the first words of sentences.
    before, after: the frequencies of the forms that precede and follow each form.
    once: for each form, the number of usable sentences that contain it exactly once.
    top: the frequencies, in usable sentences, of the relations of the root's children.
    """

    texts: array[int] = field(default_factory=lambda: array("Q"))
    forms: Counter[str] = field(default_factory=Counter)
    tagged: Counter[tuple[str, str]] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    after: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    before: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    once: Counter[str] = field(default_factory=Counter)
    top: Counter[str] = field(default_factory=Counter)

    def add(self, shown: Shown, usable: bool, bigrams: bool) -> None:
        """Count a sentence.

        usable: whether tasks may use the sentence.
        bigrams: whether to count bigrams, which require much memory.
        """
        if not shown.forms:
            return
        forms = [form.lower() for form in shown.forms]
        self.texts.append(text_number(shown.forms))
        self.forms.update(forms)
        self.written.update(shown.forms[1:])
        self.tagged.update(
            (form, shown.tag(word))
            for form, word in zip(forms, shown.word, strict=True)
            if word is not None
        )
        if usable:
            self.once.update(form for form, number in Counter(forms).items() if number == 1)
            self.top[top_relations(shown)] += 1
        if bigrams:
            for first, second in zip(forms, [*forms[1:], END], strict=True):
                self.after[first][second] += 1
                self.before[second][first] += 1

    @cached_property
    def numbers(self) -> NDArray[np.uint64]:
        return np.sort(np.frombuffer(self.texts, dtype=np.uint64))

    def has(self, words: Sequence[str]) -> bool:
        """Return whether these words are a sentence of the corpus, ignoring case."""
        number = np.uint64(text_number(words))
        place = int(np.searchsorted(self.numbers, number))
        return place < len(self.numbers) and bool(self.numbers[place] == number)

    @cached_property
    def spellings(self) -> dict[str, str]:
        """The most frequent spelling of each form, excluding the first words of sentences."""
        found: dict[str, str] = {}
        for word in ranked(self.written):
            found.setdefault(word.lower(), word)
        return found

    def inside(self, word: str) -> str:
        """Return how a first word is spelled inside sentences: `the` for `The`, `TV` for `TV`."""
        if word[1:] != word[1:].lower():
            return word
        return self.spellings.get(word.lower(), word.lower())


def text_number(words: Sequence[str]) -> int:
    """Return a 64-bit hash of a text, ignoring case."""
    text = " ".join(words).lower().encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def ranked(counts: Counter[str]) -> list[str]:
    """Return the counted strings in order of decreasing frequency."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def top_relations(shown: Shown) -> str:
    """Return the relations of the root's children, such as nsubj_obj, excluding punctuation."""
    names = [shown.relations[word] for word in shown.children(shown.root)]
    return "_".join(name for name in names if name != "punct") or "NONE"
