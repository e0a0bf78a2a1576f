"""Define the JSON of a scored system, which posattn score writes and posattn report reads.

These dataclasses validate the files. score_document.py describes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import ABSENT, Open, option
from fairseq_posattn.scoring.inspection_record import (
    Example,
    Heads,
    Number,
    Text,
    Whole,
)

EXACT = "exact"  # the share of sentences that equal a reference
MAIN_SCORES = ("BLEU", "chrF2", EXACT)  # the choices for the main score
MAIN_BY_DEFAULT = ("NIST BLEU", "BLEU")  # tables show the first of these that was computed
SEGMENTS = "segments:mean"  # the signature of segment scores from another program
MEAN = "mean"  # names the mean over all labels in tables, so it must not be a label
VERSION = 1
LOWER_IS_BETTER = ("TER",)  # among the scores that this package computes


def range_name(first: int, last: int | None) -> str:
    """Format a range for display. Both ends are inclusive; `last` is None for an open range."""
    if last is None:
        return f"≥ {first}"
    return str(first) if first == last else f"{first}–{last}"


@dataclass(frozen=True, kw_only=True)
class Score(Open):
    """A score of the whole test set."""

    score: Number = option("the mean, if there are several runs")
    deviation: Number = option("the standard deviation of several runs", ABSENT)
    runs: list[Number] = option("the score of each run", ABSENT)
    signature: Text = option("sacrebleu's signature")
    lower_is_better: bool = option("whether lower is better", ABSENT)
    interval: list[Number] = option(
        "the 95 % bootstrap confidence interval, over sentences and, with several runs, runs",
        ABSENT,
    )
    brevity_penalty: Number = option("BLEU's brevity penalty", ABSENT)
    precisions: list[Number] = option("BLEU's precisions for n = 1 … 4", ABSENT)


def is_lower_better(name: str, score: Score) -> bool:
    """Return whether lower values of this score are better."""
    return name in LOWER_IS_BETTER or score.lower_is_better is True


@dataclass(frozen=True, kw_only=True)
class Ngrams(Open):
    """Scores for one n-gram order, or their differences from the baseline."""

    n: Whole = option("the order, from 1 to 8")
    bleu: Number = option("BLEU with n-grams up to this order")
    precision: Number = option("the precision of n-grams of this order")


@dataclass(frozen=True, kw_only=True)
class WordGroup(Open):
    """Precision and recall of the words in one group, averaged over the runs."""

    name: Text = option("the group, such as 2–4 or NOUN")
    words: Whole = option("the number of reference words")
    precision: Number = option("the share of words in the translation that are correct, in %")
    recall: Number = option("the share of words in the reference that were translated, in %")
    f1: Number = option("the harmonic mean of both")
    interval: list[Number] = option("the confidence interval of F1", ABSENT)


@dataclass(frozen=True, kw_only=True)
class Difference(Open):
    """A difference from the baseline, and its significance."""

    difference: Number = option("the score minus the baseline's")
    bootstrap_p: Number | None = option("p-value for new sentences and runs", ABSENT)
    randomisation_p: Number | None = option("p-value for the outputs of these runs", ABSENT)
    welch_p: Number | None = option(
        "p-value of Welch's test, if both systems have several runs", ABSENT
    )
    interval: list[Number] = option("its confidence interval", ABSENT)
    mark: Text = option(
        "⇑ better, ⇓ worse with p < 0.01; ↑, ↓ with p < 0.05; by both Welch's test and the "
        "bootstrap over several runs, corrected by Holm's method over the scores"
    )


@dataclass(frozen=True, kw_only=True)
class Part(Open):
    """The main score of a group of sentences, or the mean over all labels."""

    sentences: Whole = option("the number of sentences")
    score: Number = option("the mean over the runs", ABSENT)
    deviation: Number = option("the standard deviation of several runs", ABSENT)
    runs: list[Number] = option("the score of each run", ABSENT)
    interval: list[Number] = option("the confidence interval, as in Score", ABSENT)
    difference: Difference = option(
        "marks are corrected by Holm's method over the buckets or labels of one criterion; for "
        "means, over all means",
        ABSENT,
    )

    def __post_init__(self) -> None:
        if self.value is ABSENT:
            raise InputError("the score is missing")

    @property
    def value(self) -> float:
        """The main score."""
        return self.score


@dataclass(frozen=True, kw_only=True)
class Bucket(Part):
    """The main score of the sentences in one range, such as a range of lengths."""

    first: Whole = option("the smallest value", key="from")
    last: Whole | None = option("the largest value; null: unlimited", key="to")
    bleu: Number = option("replaces `score`, if the main score is BLEU", ABSENT)

    @property
    def name(self) -> str:
        """The range in display format."""
        return range_name(self.first, self.last)

    @property
    def value(self) -> float:
        """The main score."""
        return self.bleu if self.score is ABSENT else self.score


@dataclass(frozen=True, kw_only=True)
class Subset(Part):
    """The main score of the sentences with one label."""

    name: Text = option("the label")


@dataclass(frozen=True, kw_only=True)
class Subsets(Open):
    """The scores by label, for one of the files given with `--subsets`."""

    labels: list[Subset] = option("in the order of the file")
    mean: Part = option("the mean over the labels, equally weighted")


@dataclass(frozen=True, kw_only=True)
class ComparedSentence(Open):
    """A sentence with a large difference in score between the system and the baseline."""

    number: Whole = option("the number, from 0")
    source: Text = option("the source sentence", ABSENT)
    reference: Text = option("the first reference")
    translation: Text = option("the system's translation")
    baseline: Text = option("the baseline's translation")
    score: Number = option("chrF2; the mean, if there are several runs")
    baseline_score: Number = option("the baseline's chrF2")


@dataclass(frozen=True, kw_only=True)
class Baseline(Open):
    """The comparison with another system."""

    system: Text = option("its name")
    runs: Whole = option("its number of runs, if several", ABSENT)
    significance: Text = option("the number of samples, and random seed", ABSENT)
    scores: dict[str, Difference] = option("the differences by score", ABSENT)
    ngrams: list[Ngrams] = option("the differences", ABSENT)
    sentences: list[ComparedSentence] = option("the largest differences, gains first", ABSENT)


@dataclass(frozen=True, kw_only=True)
class Decoding(Open):
    """The speed of one run of fairseq-generate."""

    sentences: Whole = option("the number of sentences", ABSENT)
    seconds: Number = option("the time (of the slowest shard)", ABSENT)
    sentences_per_second: Number = option("the speed in sentences")
    pieces_per_second: Number = option("the speed in generated pieces", ABSENT)


@dataclass(frozen=True, kw_only=True)
class Speed(Open):
    """The translation speed of the system."""

    translation: Decoding = option("without parsing", ABSENT)
    with_parsing: Decoding = option("including parsing of the source", ABSENT)


@dataclass(frozen=True, kw_only=True)
class Losses(Open):
    """A point on the learning curve."""

    update: Whole = option("the number of updates")
    train_loss: Number | None = option("the training loss")
    valid_loss: Number | None = option("the validation loss")


@dataclass(frozen=True, kw_only=True)
class Training(Open):
    """Statistics of the system's training."""

    parameters: Whole | None = option("the number of parameters", ABSENT)
    architecture: Text = option("the name of the model in fairseq", ABSENT)
    words_per_second: Number | None = option("the median in the log", ABSENT)
    curve: list[Losses] = option("one point per validation", ABSENT)


@dataclass(frozen=True, kw_only=True)
class ScoredSystem(Open):
    """The top-level object: the results of a system on a test set."""

    version: Whole = option("the version of this format")
    code: Text = option("the version of the package", ABSENT)
    system: Text = option("the name of the system")
    test: Text = option("the name of the test set")
    source: Text = option("the source language", ABSENT)
    target: Text = option("the target language", ABSENT)
    sentences: Whole | None = option("the number of sentences", ABSENT)
    references: Whole | None = option("the number of references per sentence", ABSENT)
    runs: Whole = option("the number of runs, if several", ABSENT)
    scores: dict[str, Score] = option("by name, such as BLEU")
    ngrams: list[Ngrams] = option("one for each order", ABSENT)
    main: Text = option(
        "the score chosen by --main; default: BLEU, but tables show NIST BLEU if it was computed",
        ABSENT,
    )
    buckets: dict[str, list[Bucket]] = option(
        "the main score by `length`, `depth`, `longest_dependency` and `split_words`", ABSENT
    )
    subsets: dict[str, Subsets] = option("the main score by label", ABSENT)
    words: dict[str, list[WordGroup]] = option(
        "F1 of words by `frequency` in the training data, part of speech (`pos`) and `relation`",
        ABSENT,
    )
    baseline: Baseline = option("the comparison with a baseline", ABSENT)
    speed: Speed = option("from the logs of fairseq-generate", ABSENT)
    training: Training = option("from the logs of fairseq-train", ABSENT)
    examples: list[Example] = option("some translated sentences", ABSENT)
    heads: Heads = option("what each attention head does", ABSENT)

    @property
    def run_count(self) -> int:
        """The number of scored runs."""
        return self.runs or 1

    @property
    def main_score(self) -> str:
        """The name of the score shown in tables, which may be missing from `scores`."""
        wanted = [self.main] if self.main else MAIN_BY_DEFAULT
        return next((name for name in wanted if name in self.scores), wanted[-1])

    @property
    def parts(self) -> dict[str, Sequence[Subset | Bucket]]:
        """Subsets of the test set by criterion; criteria with labels precede those with ranges."""
        labelled = {name: one.labels for name, one in (self.subsets or {}).items()}
        ranges = {name: one for name, one in (self.buckets or {}).items() if name not in labelled}
        return {**labelled, **ranges}
