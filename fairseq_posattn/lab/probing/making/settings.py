"""Hold the numbers that say how probing tasks are made."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import not_negative, option, positive

SHORTEST, LONGEST = 5, 28  # words of a sentence, as in SentEval
BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))


@dataclass(frozen=True)
class Settings:
    """These are the choices of the user; each field is an option of posattn probe-tasks."""

    seed: int = option(
        "draw the sentences by chance with this seed (default: %(default)s)", 1, type=not_negative
    )
    sizes: list[int] = option(
        "take at most so many sentences for a task (default: 100000 10000 10000)",
        *([100_000, 10_000, 10_000], "", ("TRAIN", "DEV", "TEST")),
        type=positive,
        nargs=3,
    )
    shares: list[int] = option(
        "divide the sentences of a smaller task in this ratio (default: 70 15 15)",
        *([70, 15, 15], "", ("TRAIN", "DEV", "TEST")),
        type=positive,
        nargs=3,
    )
    min_sentences: int = option(
        "refuse a task with fewer than N sentences (default: %(default)s)",
        1000,
        type=positive,
        key="least",
    )
    content_rank: int = option(
        "take words of this rank in the corpus or a later one for WC (default: %(default)s)",
        2001,
        type=positive,
    )
    content_words: int = option(
        "let WC ask for N words (default: %(default)s)", 1000, type=positive
    )
    form_counts: list[int] = option(
        "Tense, SubjNum and ObjNum: leave out verbs and nouns with fewer than LOW sentences, and "
        "take at most HIGH of each (default: 2 100)",
        *([2, 100], "", ("LOW", "HIGH")),
        type=positive,
        nargs=2,
    )
    odd_counts: list[int] = option(
        "SOMO: replace words that occur LOW to HIGH times by others that do (default: 40 400)",
        *([40, 400], "", ("LOW", "HIGH")),
        type=positive,
        nargs=2,
    )

    def __post_init__(self) -> None:
        for name in ("form_counts", "odd_counts"):
            low, high = getattr(self, name)
            if low > high:
                raise InputError(
                    f"--{name.replace('_', '-')} {low} {high}: LOW must not exceed HIGH"
                )

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
