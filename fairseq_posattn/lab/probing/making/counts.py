"""Count in a corpus what the rules of the tasks ask for, before any sentence is chosen."""

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

END = "</s>"  # what follows the last word


@dataclass
class Counts:
    """These are the counts of a corpus; all forms but those of `written` are in lower case.

    texts: a number for each sentence, by which its text is recognised.
    forms: how often each form is shown.
    tagged: how often a form has a part of speech.
    written: how often a word is written in this way where it does not begin a sentence.
    before, after: how often forms follow a form, and how often they stand before it.
    once: how many sentences that a task can take have a form exactly once.
    top: how often the root of such a sentence has children with these relations.
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
        """Count a sentence; the neighbours of words are many, and counted only where needed.

        usable: whether tasks can take the sentence.
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
        """Return whether these words are a sentence of the corpus."""
        number = np.uint64(text_number(words))
        place = int(np.searchsorted(self.numbers, number))
        return place < len(self.numbers) and bool(self.numbers[place] == number)

    @cached_property
    def spellings(self) -> dict[str, str]:
        """Return how each form is mostly written where it does not begin a sentence."""
        found: dict[str, str] = {}
        for word in ranked(self.written):
            found.setdefault(word.lower(), word)
        return found

    def inside(self, word: str) -> str:
        """Return the first word of a sentence as it is written elsewhere, such as TV or the."""
        if word[1:] != word[1:].lower():
            return word
        return self.spellings.get(word.lower(), word.lower())


def text_number(words: Sequence[str]) -> int:
    """Return a number by which a text is recognised, however its words are capitalised."""
    text = " ".join(words).lower().encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def ranked(counts: Counter[str]) -> list[str]:
    """Return what was counted, the most frequent first."""
    return sorted(counts, key=lambda name: (-counts[name], name))


def top_relations(shown: Shown) -> str:
    """Return the relations of the root's children in their order, without punctuation."""
    names = [shown.relations[word] for word in shown.children(shown.root)]
    return "_".join(name for name in names if name != "punct") or "NONE"
