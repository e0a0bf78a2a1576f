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

    score: Number = has("the score of the whole test set; of several runs the mean")
    deviation: Number = may_have("the standard deviation of several runs")
    runs: list[Number] = may_have("the score of each of several runs")
    signature: Text = has("sacrebleu's signature")
    lower_is_better: bool = may_have("whether a smaller score is better")
    interval: list[Number] = may_have(
        "95 % for other sentences and, with several runs, other trainings"
    )
    brevity_penalty: Number = may_have("the brevity penalty in BLEU")
    precisions: list[Number] = may_have("the precisions in BLEU for n = 1 … 4")


def is_lower_better(name: str, score: Score) -> bool:
    """Return whether a smaller score of this name is better."""
    return name in LOWER_IS_BETTER or score.lower_is_better is True


@dataclass(frozen=True, kw_only=True)
class Ngrams(Open):
    """The figures for one order of n-grams, or the gaps between those of two systems."""

    n: Whole = has("the order n, from 1 to 8")
    bleu: Number = has("BLEU with n-grams up to this order")
    precision: Number = has("the precision of this order alone")


@dataclass(frozen=True, kw_only=True)
class WordGroup(Open):
    """How well the words of one group are translated, the mean over the runs."""

    name: Text = has("such as 2–4 or NOUN")
    words: Whole = has("how many words of the reference")
    precision: Number = has("the share of translated words that are right, in %")
    recall: Number = has("the share of reference words that were written, in %")
    f1: Number = has("the harmonic mean of both")
    interval: list[Number] = may_have("that of F1")


@dataclass(frozen=True, kw_only=True)
class Difference(Open):
    """What a score gains over that of the baseline, and whether that could be chance."""

    difference: Number = has("the score minus that of the baseline")
    bootstrap_p: Number | None = may_have("for other sentences and trainings")
    randomisation_p: Number | None = may_have("for the outputs of these runs")
    welch_p: Number | None = may_have("over the runs, if both have several")
    interval: list[Number] = may_have("that of the difference")
    mark: Text = has(
        "⇑ means better and ⇓ worse with p < 0.01 by Welch's test and the bootstrap over several "
        "runs, ↑ ↓ p < 0.05, after Holm over the scores of the system"
    )


@dataclass(frozen=True, kw_only=True)
class Part(Open):
    """The main score of some sentences, or its mean over the labels of subsets."""

    sentences: Whole = has("how many there are")
    score: Number = may_have("the main score of these sentences; of several runs the mean")
    deviation: Number = may_have("the standard deviation of several runs")
    runs: list[Number] = may_have("the score of each of several runs")
    interval: list[Number] = may_have("as that of a score")
    difference: Difference = may_have(
        "to that of the baseline; its mark is given after Holm over the buckets or labels of one "
        "name, and that of a mean over the means"
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
    """The main score of sentences that are alike in their length, their tree or split words."""

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
    """The main score by the labels that a file gives the sentences."""

    labels: list[Subset] = has("a part for each label, in the order of the file")
    mean: Part = has("the mean over the labels, of which each counts the same")


@dataclass(frozen=True, kw_only=True)
class ComparedSentence(Open):
    """A sentence on which the system differs much from the baseline."""

    number: Whole = has("counted from 0")
    source: Text = may_have("the sentence in the source language")
    reference: Text = has("its first reference")
    translation: Text = has("by the system, of several runs by the first")
    baseline: Text = has("by the baseline, of several runs by the first")
    score: Number = has("chrF2 of the sentence, of several runs the mean")
    baseline_score: Number = has("the same of the baseline")


@dataclass(frozen=True, kw_only=True)
class Baseline(Open):
    """How the system compares with another one."""

    system: Text = has("the name of the baseline")
    runs: Whole = may_have("how many runs, if several")
    significance: Text = may_have("how many samples were drawn, and the seed")
    scores: dict[str, Difference] = may_have("the differences by the names of the scores")
    ngrams: list[Ngrams] = may_have("the gaps to the baseline")
    sentences: list[ComparedSentence] = may_have(
        "those with the largest differences, the gains first"
    )


@dataclass(frozen=True, kw_only=True)
class Decoding(Open):
    """The speed of one run of fairseq-generate."""

    sentences: Whole = may_have("how many sentences were translated")
    seconds: Number = may_have("how long that took; of several shards the slowest")
    sentences_per_second: Number = has("sentences translated each second")
    pieces_per_second: Number = may_have("pieces generated each second")


@dataclass(frozen=True, kw_only=True)
class Speed(Open):
    """How fast the system translates."""

    translation: Decoding = may_have("without parsing")
    with_parsing: Decoding = may_have("with parsing of the sources")


@dataclass(frozen=True, kw_only=True)
class Losses(Open):
    """A point of the learning curve."""

    update: Whole = has("after how many updates")
    train_loss: Number | None = has("the loss on the training data")
    valid_loss: Number | None = has("the loss on the validation data")


@dataclass(frozen=True, kw_only=True)
class Training(Open):
    """How the system was trained."""

    parameters: Whole | None = may_have("how many parameters the model has")
    architecture: Text = may_have("the name of the model in fairseq")
    words_per_second: Number | None = may_have("the median of the speeds in the log")
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
    sentences: Whole | None = may_have("how many sentences were scored")
    references: Whole | None = may_have("references of each of them")
    runs: Whole = may_have("how many runs, if several")
    scores: dict[str, Score] = has("by name, such as BLEU, chrF2, TER")
    ngrams: list[Ngrams] = may_have("one for each order of n-grams")
    main: Text = may_have(
        "the score of buckets, subsets and tables, if it was chosen; else BLEU, and NIST BLEU in "
        "tables where it is there"
    )
    buckets: dict[str, list[Bucket]] = may_have(
        "the main score by `length`, `depth`, `longest_dependency` and `split_words`"
    )
    subsets: dict[str, Subsets] = may_have("the main score by labels, by the names of their files")
    words: dict[str, list[WordGroup]] = may_have(
        "F1 of the words by `frequency` in training, part of speech (`pos`) and `relation`"
    )
    baseline: Baseline = may_have("how the system compares with a baseline")
    speed: Speed = may_have("from the logs of fairseq-generate")
    training: Training = may_have("how the training went, from the logs of fairseq-train")
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
