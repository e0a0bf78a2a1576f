"""Define the JSON of a scored system, which posattn score writes and posattn report reads.

These dataclasses validate the files. score_document.py describes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.records import ABSENT, Open
from fairseq_posattn.scoring.inspection_record import (
    Example,
    Heads,
    Number,
    Text,
    Whole,
    has,
    may_have,
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

    score: Number = has("the mean, if there are several runs")
    deviation: Number = may_have("the standard deviation of several runs")
    runs: list[Number] = may_have("the score of each run")
    signature: Text = has("sacrebleu's signature")
    lower_is_better: bool = may_have("whether lower is better")
    interval: list[Number] = may_have(
        "the 95 % confidence interval, for other sentences and, with several runs, trainings"
    )
    brevity_penalty: Number = may_have("BLEU's brevity penalty")
    precisions: list[Number] = may_have("BLEU's precisions for n = 1 … 4")


def is_lower_better(name: str, score: Score) -> bool:
    """Return whether lower values of this score are better."""
    return name in LOWER_IS_BETTER or score.lower_is_better is True


@dataclass(frozen=True, kw_only=True)
class Ngrams(Open):
    """Scores for one n-gram order, or their differences from the baseline."""

    n: Whole = has("the order, from 1 to 8")
    bleu: Number = has("BLEU with n-grams up to this order")
    precision: Number = has("the precision of n-grams of this order")


@dataclass(frozen=True, kw_only=True)
class WordGroup(Open):
    """Precision and recall of the words in one group, averaged over the runs."""

    name: Text = has("the group, such as 2–4 or NOUN")
    words: Whole = has("the number in the reference")
    precision: Number = has("the share of words in the translation that are correct, in %")
    recall: Number = has("the share of words in the reference that were translated, in %")
    f1: Number = has("the harmonic mean of both")
    interval: list[Number] = may_have("the confidence interval of F1")


@dataclass(frozen=True, kw_only=True)
class Difference(Open):
    """A difference from the baseline, and its significance."""

    difference: Number = has("the score minus the baseline's")
    bootstrap_p: Number | None = may_have("p for other sentences and trainings")
    randomisation_p: Number | None = may_have("p for the outputs of these runs")
    welch_p: Number | None = may_have("p-value of Welch's test, if both systems have several runs")
    interval: list[Number] = may_have("its confidence interval")
    mark: Text = has(
        "⇑ better, ⇓ worse with p < 0.01; ↑, ↓ with p < 0.05; by both Welch's test and the "
        "bootstrap over several runs, corrected by Holm's method over the scores"
    )


@dataclass(frozen=True, kw_only=True)
class Part(Open):
    """The main score of a group of sentences, or the mean over all labels."""

    sentences: Whole = has("the number of sentences")
    score: Number = may_have("the mean over the runs")
    deviation: Number = may_have("the standard deviation of several runs")
    runs: list[Number] = may_have("the score of each run")
    interval: list[Number] = may_have("the confidence interval, as in Score")
    difference: Difference = may_have(
        "marks are corrected by Holm's method over the buckets or labels of one name; those of "
        "means over all means"
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

    first: Whole = has("the smallest value", key="from")
    last: Whole | None = has("the largest value; null: no end", key="to")
    bleu: Number = may_have("replaces `score`, if the main score is BLEU")

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

    name: Text = has("the label")


@dataclass(frozen=True, kw_only=True)
class Subsets(Open):
    """The scores by label, for one of the files given with `--subsets`."""

    labels: list[Subset] = has("in the order of the file")
    mean: Part = has("the mean over the labels, equally weighted")


@dataclass(frozen=True, kw_only=True)
class ComparedSentence(Open):
    """A sentence with a large difference in score between the system and the baseline."""

    number: Whole = has("the number, from 0")
    source: Text = may_have("the source sentence")
    reference: Text = has("the first reference")
    translation: Text = has("the system's translation")
    baseline: Text = has("the baseline's translation")
    score: Number = has("chrF2; the mean, if there are several runs")
    baseline_score: Number = has("the baseline's chrF2")


@dataclass(frozen=True, kw_only=True)
class Baseline(Open):
    """The comparison with another system."""

    system: Text = has("its name")
    runs: Whole = may_have("its number of runs, if several")
    significance: Text = may_have("the number of samples, and random seed")
    scores: dict[str, Difference] = may_have("the differences by score")
    ngrams: list[Ngrams] = may_have("the differences")
    sentences: list[ComparedSentence] = may_have("the largest differences, gains first")


@dataclass(frozen=True, kw_only=True)
class Decoding(Open):
    """The speed of one run of fairseq-generate."""

    sentences: Whole = may_have("the number of sentences")
    seconds: Number = may_have("the time; of several shards, the slowest")
    sentences_per_second: Number = has("the speed in sentences")
    pieces_per_second: Number = may_have("the speed in generated pieces")


@dataclass(frozen=True, kw_only=True)
class Speed(Open):
    """The translation speed of the system."""

    translation: Decoding = may_have("without parsing")
    with_parsing: Decoding = may_have("including parsing of the source")


@dataclass(frozen=True, kw_only=True)
class Losses(Open):
    """A point on the learning curve."""

    update: Whole = has("the number of updates")
    train_loss: Number | None = has("the training loss")
    valid_loss: Number | None = has("the validation loss")


@dataclass(frozen=True, kw_only=True)
class Training(Open):
    """Statistics of the system's training."""

    parameters: Whole | None = may_have("the number of parameters")
    architecture: Text = may_have("the name of the model in fairseq")
    words_per_second: Number | None = may_have("the median in the log")
    curve: list[Losses] = may_have("one point per validation")


@dataclass(frozen=True, kw_only=True)
class ScoredSystem(Open):
    """The top-level object: the results of a system on a test set."""

    version: Whole = has("the version of this format")
    code: Text = may_have("the version of the package")
    system: Text = has("the name of the system")
    test: Text = has("the name of the test set")
    source: Text = may_have("the source language")
    target: Text = may_have("the target language")
    sentences: Whole | None = may_have("the number of sentences")
    references: Whole | None = may_have("the number of references per sentence")
    runs: Whole = may_have("the number of runs, if several")
    scores: dict[str, Score] = has("by name, such as BLEU")
    ngrams: list[Ngrams] = may_have("one for each order")
    main: Text = may_have(
        "the score chosen by --main; default: BLEU, but tables show NIST BLEU if it was computed"
    )
    buckets: dict[str, list[Bucket]] = may_have(
        "the main score by `length`, `depth`, `longest_dependency` and `split_words`"
    )
    subsets: dict[str, Subsets] = may_have("the main score by label")
    words: dict[str, list[WordGroup]] = may_have(
        "F1 of words by `frequency` in the training data, part of speech (`pos`) and `relation`"
    )
    baseline: Baseline = may_have("the comparison with a baseline")
    speed: Speed = may_have("from the logs of fairseq-generate")
    training: Training = may_have("from the logs of fairseq-train")
    examples: list[Example] = may_have("some translated sentences")
    heads: Heads = may_have("what each attention head does")

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
