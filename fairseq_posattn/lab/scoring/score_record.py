"""Describe the JSON of a scored system, which posattn score writes and posattn report reads.

These classes check the files, and generate docs/score_json.md: see score_document.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import ABSENT, Open
from fairseq_posattn.lab.scoring.example_record import Example
from fairseq_posattn.lab.scoring.head_record import Heads
from fairseq_posattn.lab.scoring.json_values import Number, Text, Whole, has, may_have

EXACT = "exact"  # the share of sentences that equal a reference
MAIN_SCORES = ("BLEU", "chrF2", EXACT)  # one of them can be chosen
MAIN_BY_DEFAULT = ("NIST BLEU", "BLEU")  # in tables, the first that is there
SEGMENTS = "segments:mean"  # the signature of numbers that another program gave the sentences
MEAN = "mean"  # the mean over all labels has this name in tables, so no label has it
VERSION = 1
LOWER_IS_BETTER = ("TER",)  # of the scores that are computed here


def range_name(first: int, last: int | None) -> str:
    """Return a range as it is shown; both ends belong to it, and None means no end."""
    if last is None:
        return f"≥ {first}"
    return str(first) if first == last else f"{first}–{last}"


@dataclass(frozen=True, kw_only=True)
class Score(Open):
    """A score of the whole test set."""

    score: Number = has("the score of the whole test set; the mean, if there are several runs")
    deviation: Number = may_have("the standard deviation of several runs")
    runs: list[Number] = may_have("the score of each of several runs")
    signature: Text = has("sacrebleu's signature")
    lower_is_better: bool = may_have("whether a smaller score is better")
    interval: list[Number] = may_have(
        "the confidence interval of 95 %, for other sentences and, with several runs, trainings"
    )
    brevity_penalty: Number = may_have("the brevity penalty in BLEU")
    precisions: list[Number] = may_have("the precisions in BLEU for n = 1 … 4")


def is_lower_better(name: str, score: Score) -> bool:
    """Return whether a smaller score of this name is better."""
    return name in LOWER_IS_BETTER or score.lower_is_better is True


@dataclass(frozen=True, kw_only=True)
class Ngrams(Open):
    """Scores by n-grams of one order, or the differences between two systems."""

    n: Whole = has("the order n, from 1 to 8")
    bleu: Number = has("BLEU with n-grams up to this order")
    precision: Number = has("the precision of n-grams of this order")


@dataclass(frozen=True, kw_only=True)
class WordGroup(Open):
    """How well the words of one group are translated, as a mean over the runs."""

    name: Text = has("the group, such as 2–4 or NOUN")
    words: Whole = has("the number of words in the reference")
    precision: Number = has("the share of words in the translation that are correct, in %")
    recall: Number = has("the share of words in the reference that were translated, in %")
    f1: Number = has("the harmonic mean of precision and recall")
    interval: list[Number] = may_have("the confidence interval of F1")


@dataclass(frozen=True, kw_only=True)
class Difference(Open):
    """The difference of a score from that of the baseline, and its significance."""

    difference: Number = has("the score minus that of the baseline")
    bootstrap_p: Number | None = may_have("the p-value for other sentences and trainings")
    randomisation_p: Number | None = may_have("the p-value for the outputs of these runs")
    welch_p: Number | None = may_have("the p-value over the runs, if both have several")
    interval: list[Number] = may_have("the confidence interval of the difference")
    mark: Text = has(
        "⇑ is better and ⇓ worse with p < 0.01, ↑ and ↓ with p < 0.05, by both Welch's test and "
        "the bootstrap over several runs, corrected by Holm's method over the system's scores"
    )


@dataclass(frozen=True, kw_only=True)
class Part(Open):
    """The main score of a group of sentences, or the mean over the labels of subsets."""

    sentences: Whole = has("the number of sentences")
    score: Number = may_have("the main score of these sentences; the mean over the runs")
    deviation: Number = may_have("the standard deviation of several runs")
    runs: list[Number] = may_have("the score of each of several runs")
    interval: list[Number] = may_have("the confidence interval, as in Score")
    difference: Difference = may_have(
        "the difference from the baseline; marks are corrected by Holm's method over the buckets "
        "or labels of one name, and marks of means over all means"
    )

    def __post_init__(self) -> None:
        if self.value is ABSENT:
            raise InputError("the score is missing")

    @property
    def value(self) -> float:
        """Return the main score."""
        return self.score


@dataclass(frozen=True, kw_only=True)
class Bucket(Part):
    """The main score of sentences with similar length, tree, or number of split words."""

    first: Whole = has("the smallest value", key="from")
    last: Whole | None = has("the largest value; null means no end", key="to")
    bleu: Number = may_have("the main score in place of `score`, if it is BLEU")

    @property
    def name(self) -> str:
        """Return the range as it is shown."""
        return range_name(self.first, self.last)

    @property
    def value(self) -> float:
        """Return the main score."""
        return self.bleu if self.score is ABSENT else self.score


@dataclass(frozen=True, kw_only=True)
class Subset(Part):
    """The main score of the sentences that have one label."""

    name: Text = has("the label")


@dataclass(frozen=True, kw_only=True)
class Subsets(Open):
    """The main score for each label in a file of sentence labels."""

    labels: list[Subset] = has("a part for each label, in the order of the file")
    mean: Part = has("the mean over the labels, with equal weights")


@dataclass(frozen=True, kw_only=True)
class ComparedSentence(Open):
    """A sentence whose score differs much between the system and the baseline."""

    number: Whole = has("the number of the sentence, counted from 0")
    source: Text = may_have("the sentence in the source language")
    reference: Text = has("the first reference")
    translation: Text = has("the translation by the system")
    baseline: Text = has("the translation by the baseline")
    score: Number = has("chrF2 of the sentence; the mean, if there are several runs")
    baseline_score: Number = has("the same for the baseline")


@dataclass(frozen=True, kw_only=True)
class Baseline(Open):
    """The comparison with another system."""

    system: Text = has("the name of the baseline")
    runs: Whole = may_have("the number of runs, if there are several")
    significance: Text = may_have("the number of samples drawn, and the random seed")
    scores: dict[str, Difference] = may_have("the differences, by the name of the score")
    ngrams: list[Ngrams] = may_have("the differences from the baseline")
    sentences: list[ComparedSentence] = may_have(
        "the sentences with the largest differences, gains first"
    )


@dataclass(frozen=True, kw_only=True)
class Decoding(Open):
    """The speed of one run of fairseq-generate."""

    sentences: Whole = may_have("the number of translated sentences")
    seconds: Number = may_have("the time in seconds; with several shards, that of the slowest")
    sentences_per_second: Number = has("sentences translated each second")
    pieces_per_second: Number = may_have("pieces generated each second")


@dataclass(frozen=True, kw_only=True)
class Speed(Open):
    """How fast the system translates."""

    translation: Decoding = may_have("the speed without parsing")
    with_parsing: Decoding = may_have("the speed including parsing of the source")


@dataclass(frozen=True, kw_only=True)
class Losses(Open):
    """A point of the learning curve."""

    update: Whole = has("the number of updates")
    train_loss: Number | None = has("the loss on the training data")
    valid_loss: Number | None = has("the loss on the validation data")


@dataclass(frozen=True, kw_only=True)
class Training(Open):
    """How the system was trained."""

    parameters: Whole | None = may_have("the number of parameters of the model")
    architecture: Text = may_have("the name of the model in fairseq")
    words_per_second: Number | None = may_have("the median training speed in the log")
    curve: list[Losses] = may_have("a point for each validation")


@dataclass(frozen=True, kw_only=True)
class ScoredSystem(Open):
    """The whole file: a system on a test set."""

    version: Whole = has("the version of this format")
    code: Text = may_have("the version of the package, with the commit in a checkout")
    system: Text = has("the name of the system")
    test: Text = has("the name of the test set")
    source: Text = may_have("the language of the source")
    target: Text = may_have("the language of the target")
    sentences: Whole | None = may_have("the number of scored sentences")
    references: Whole | None = may_have("the number of references per sentence")
    runs: Whole = may_have("the number of runs, if there are several")
    scores: dict[str, Score] = has("the scores by name, such as BLEU, chrF2, TER")
    ngrams: list[Ngrams] = may_have("an entry for each order of n-grams")
    main: Text = may_have(
        "the score shown for buckets, subsets and tables, if chosen by --main; otherwise BLEU (in "
        "tables NIST BLEU, if it was computed)"
    )
    buckets: dict[str, list[Bucket]] = may_have(
        "the main score by `length`, `depth`, `longest_dependency` and `split_words`"
    )
    subsets: dict[str, Subsets] = may_have("the main score by label, for each file of labels")
    words: dict[str, list[WordGroup]] = may_have(
        "F1 of words by `frequency` in the training data, part of speech (`pos`) and `relation`"
    )
    baseline: Baseline = may_have("the comparison with a baseline")
    speed: Speed = may_have("the decoding speed, from the logs of fairseq-generate")
    training: Training = may_have("the learning curve and size, from the logs of fairseq-train")
    examples: list[Example] = may_have("some translated sentences with their attention")
    heads: Heads = may_have("what each attention head does over the test set")

    @property
    def run_count(self) -> int:
        """Return how many runs were scored."""
        return self.runs or 1

    @property
    def main_score(self) -> str:
        """Return the name of the score that tables show, which may be missing in a file."""
        wanted = [self.main] if self.main else MAIN_BY_DEFAULT
        return next((name for name in wanted if name in self.scores), wanted[-1])

    @property
    def parts(self) -> dict[str, Sequence[Subset | Bucket]]:
        """Return the parts that the test set was split into, labels before ranges."""
        labelled = {name: one.labels for name, one in (self.subsets or {}).items()}
        ranges = {name: one for name, one in (self.buckets or {}).items() if name not in labelled}
        return {**labelled, **ranges}
