"""Hold the numbers that say how probing tasks are made."""

from __future__ import annotations

from dataclasses import dataclass, field

SHORTEST, LONGEST = 5, 28  # words of a sentence, as in SentEval
BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))


@dataclass(frozen=True)
class Settings:
    """These are the choices of the user.

    seed: all that is left to chance depends on it and on the text.
    sizes: a task has at most so many sentences for training, dev and test.
    shares: the sentences of a smaller task are divided in this ratio.
    least: a task with fewer sentences is not made.
    content_rank, content_words: WC asks for so many words, the commonest from this rank on.
    form_counts: the form whose tense or number is asked for has at least so many sentences, of
        which at most so many are taken.
    odd_counts: the word that SOMO replaces and its replacement occur so often in the corpus.
    """

    seed: int = 1
    sizes: list[int] = field(default_factory=lambda: [100_000, 10_000, 10_000])
    shares: list[int] = field(default_factory=lambda: [70, 15, 15])
    least: int = 1000
    content_rank: int = 2001
    content_words: int = 1000
    form_counts: list[int] = field(default_factory=lambda: [2, 100])
    odd_counts: list[int] = field(default_factory=lambda: [40, 400])

    @property
    def total(self) -> int:
        """Return how many sentences a task has at most."""
        return sum(self.sizes)

    def of_each(self, count: int, classes: int) -> list[int]:
        """Return how many of so many sentences of a class each split gets.

        The shares say it, but no split gets more than its size allows; the others get the rest.
        """
        most = [size // classes for size in self.sizes]
        found = [0] * len(most)
        while rest := min(count, sum(most)) - sum(found):
            open_splits = [k for k, size in enumerate(most) if found[k] < size]
            whole = sum(self.shares[k] for k in open_splits)
            exact = {k: rest * self.shares[k] / whole for k in open_splits}
            for k, part in exact.items():
                found[k] += min(int(part), most[k] - found[k])
            if not any(int(part) for part in exact.values()):  # single sentences are left
                for k in sorted(exact, key=lambda k: (-exact[k], k))[:rest]:
                    found[k] += 1
        return found
