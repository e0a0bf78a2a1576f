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
        rest, open_splits = min(count, sum(most)), list(range(len(most)))
        found = [0] * len(most)
        while True:
            whole = sum(self.shares[k] for k in open_splits)
            exact = {k: rest * self.shares[k] / whole for k in open_splits}
            full = [k for k in open_splits if exact[k] >= most[k]]
            if not full:
                break
            for k in full:
                found[k] = min(most[k], rest)
                rest -= found[k]
                open_splits.remove(k)
            if not open_splits:
                return found
        for k, part in exact.items():
            found[k] = int(part)
        by_remainder = sorted(exact, key=lambda k: (int(exact[k]) - exact[k], k))
        for k in by_remainder[: rest - sum(found[k] for k in exact)]:
            found[k] += 1
        return found
