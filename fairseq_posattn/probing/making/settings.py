"""Define the options that control how probing tasks are made."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import at_least, option
from fairseq_posattn.files.requests import options_of
from fairseq_posattn.text.parsing.options import root_option

SHORTEST, LONGEST = 5, 28  # admissible sentence lengths in words, as in SentEval
BINS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))


@dataclass(frozen=True)
class Settings:
    """Options of posattn probe-tasks."""

    seed: int = option("random seed for sampling sentences (default: %(default)s)", 1, at_least(0))
    sizes: list[int] = option(
        "maximum number of sentences per split of a task (default: 100000 10000 10000)",
        [100_000, 10_000, 10_000],
        at_least(1),
        metavar=("TRAIN", "DEV", "TEST"),
        nargs=3,
    )
    shares: list[int] = option(
        "ratio of the splits of tasks with fewer sentences than --sizes (default: 70 15 15)",
        [70, 15, 15],
        at_least(1),
        metavar=("TRAIN", "DEV", "TEST"),
        nargs=3,
    )
    min_sentences: int = option(
        "do not make tasks with fewer than N sentences (default: %(default)s)",
        1000,
        at_least(1),
        key="least",
    )
    content_rank: int = option(
        "WC: smallest frequency rank of a target word (default: %(default)s)", 2001, at_least(1)
    )
    content_words: int = option(
        "WC: number of target words (default: %(default)s)", 1000, at_least(1)
    )
    form_counts: list[int] = option(
        "Tense, SubjNum and ObjNum: exclude verbs and nouns with fewer than LOW sentences, and use "
        "at most HIGH sentences of each (default: 2 100)",
        [2, 100],
        at_least(1),
        metavar=("LOW", "HIGH"),
        nargs=2,
    )
    odd_counts: list[int] = option(
        "SOMO: replace nouns and verbs that occur LOW to HIGH times with others (default: 40 400)",
        [40, 400],
        at_least(1),
        metavar=("LOW", "HIGH"),
        nargs=2,
    )

    def __post_init__(self) -> None:
        for name in ("form_counts", "odd_counts"):
            low, high = getattr(self, name)
            if low > high:
                raise InputError(
                    f"--{name.replace('_', '-')} {low} {high}: LOW exceeds HIGH; swap them"
                )

    def of_each(self, count: int, classes: int) -> list[int]:
        """Divide `count` sentences of one class among the splits in proportion to `shares`.

        A split gets at most its maximum size divided by `classes`; the remaining sentences are
        shared among the other splits.
        """
        most = [size // classes for size in self.sizes]
        found, rest, open_splits = [0] * len(most), min(count, sum(most)), [*range(len(most))]
        while open_splits:
            whole = sum(self.shares[k] for k in open_splits)
            exact = {k: rest * self.shares[k] / whole for k in open_splits}
            full = [k for k in open_splits if exact[k] >= most[k]]
            if not full:
                for k, part in exact.items():
                    found[k] = int(part)
                by_remainder = sorted(exact, key=lambda k: (found[k] - exact[k], k))
                for k in by_remainder[: rest - sum(found[k] for k in exact)]:
                    found[k] += 1
                break
            for k in full:
                found[k] = min(most[k], rest)
                rest -= found[k]
                open_splits.remove(k)
        return found


@dataclass(frozen=True, kw_only=True)
class ProbeTasksRequest:
    """The options of posattn probe-tasks."""

    command: ClassVar = "posattn probe-tasks"
    corpora: list[str] = option(
        "CoNLL-U files to build the tasks from, with parts of speech and features; may be .gz, .xz "
        "or .zst",
        [],
        positional=True,
        metavar="CONLLU",
    )
    out: Path | None = option("write the tasks to this folder", None, metavar="FOLDER")
    overwrite: bool = option("replace the folder if it exists", False)
    check: Path | None = option("only check the tasks in this folder", None, metavar="FOLDER")
    task: list[str] | None = option(
        "build or check only these tasks, and fail if one cannot be built (default: all)",
        None,
        metavar="NAME",
    )
    settings: Settings = options_of(Settings)
    parsed: bool = option(
        "record that the trees of the corpus were made by a parser, not by annotators", False
    )
    several_roots: str = root_option()

    def __post_init__(self) -> None:
        if self.check and (self.corpora or self.out):
            raise InputError("--check builds no tasks; leave out the CoNLL-U files and --out")
        if not (self.check or (self.corpora and self.out)):
            raise InputError(
                "nothing to do; give CoNLL-U files and --out FOLDER, or --check FOLDER"
            )
