"""Describe the JSON of a scored system, which posattn-score writes and posattn-report reads.

These classes check the files, and generate docs/score_json.md: see score_document.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairseq_posattn.io.records import ABSENT, Open, about
from fairseq_posattn.lab.scoring.example_record import Example
from fairseq_posattn.lab.scoring.head_record import Heads
from fairseq_posattn.lab.scoring.json_values import Number, Text, Whole

SEGMENTS = "segments:mean"  # the signature of numbers that another program gave the sentences
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Score(Open):
    """A score of the whole test set."""

    score: Number = field(
        metadata=about("the score of the whole test set; of several runs the mean")
    )
    deviation: Number = field(
        default=ABSENT, metadata=about("the standard deviation of several runs")
    )
    runs: list[Number] = field(default=ABSENT, metadata=about("the score of each of several runs"))
    signature: Text = field(metadata=about("sacrebleu's signature"))
    lower_is_better: bool = field(
        default=ABSENT, metadata=about("whether a smaller score is better")
    )
    interval: list[Number] = field(
        default=ABSENT,
        metadata=about("95 % for other sentences and, with several runs, other trainings"),
    )
    brevity_penalty: Number = field(default=ABSENT, metadata=about("the brevity penalty in BLEU"))
    precisions: list[Number] = field(
        default=ABSENT, metadata=about("the precisions in BLEU for n = 1 … 4")
    )


@dataclass(frozen=True, kw_only=True)
class Ngrams(Open):
    """The figures for one order of n-grams, or the gaps between those of two systems."""

    n: Whole = field(metadata=about("the order n, from 1 to 8"))
    bleu: Number = field(metadata=about("BLEU with n-grams up to this order"))
    precision: Number = field(metadata=about("the precision of this order alone"))


@dataclass(frozen=True, kw_only=True)
class Bucket(Open):
    """BLEU of sentences that are alike in their length, depth or split words."""

    first: Whole = field(metadata=about("the smallest value", key="from"))
    last: Whole | None = field(metadata=about("the largest value; null means no end", key="to"))
    sentences: Whole = field(metadata=about("how many there are"))
    bleu: Number = field(metadata=about("BLEU of these sentences"))
    interval: list[Number] = field(default=ABSENT, metadata=about("as that of a score"))


def range_name(first: int, last: int | None) -> str:
    """Return a range as it is shown; both ends belong to it, and None means no end."""
    if last is None:
        return f"≥ {first}"
    return str(first) if first == last else f"{first}–{last}"


@dataclass(frozen=True, kw_only=True)
class WordGroup(Open):
    """How well the words of one group are translated, the mean over the runs."""

    name: Text = field(metadata=about("such as 2–4 or NOUN"))
    words: Whole = field(metadata=about("how many words of the reference"))
    precision: Number = field(metadata=about("the share of translated words that are right, in %"))
    recall: Number = field(metadata=about("the share of reference words that were written, in %"))
    f1: Number = field(metadata=about("the harmonic mean of both"))
    interval: list[Number] = field(default=ABSENT, metadata=about("that of F1"))


@dataclass(frozen=True, kw_only=True)
class Difference(Open):
    """What a score gains over that of the baseline, and whether that could be chance."""

    difference: Number = field(metadata=about("the score minus that of the baseline"))
    bootstrap_p: Number | None = field(
        default=ABSENT,
        metadata=about("for other sentences and trainings"),
    )
    randomisation_p: Number | None = field(
        default=ABSENT,
        metadata=about("for the outputs of these runs"),
    )
    welch_p: Number | None = field(
        default=ABSENT,
        metadata=about("over the runs, if both have several"),
    )
    interval: list[Number] = field(
        default=ABSENT,
        metadata=about("that of the difference"),
    )
    mark: Text = field(
        metadata=about(
            "⇑ means better and ⇓ worse with p < 0.01 over the runs, ↑ ↓ p < 0.05, after Holm over "
            "the scores of the system"
        )
    )


@dataclass(frozen=True, kw_only=True)
class ComparedSentence(Open):
    """A sentence on which the system differs much from the baseline."""

    number: Whole = field(metadata=about("counted from 0"))
    source: Text = field(default=ABSENT, metadata=about("the sentence in the source language"))
    reference: Text = field(metadata=about("its first reference"))
    translation: Text = field(metadata=about("by the system, of several runs by the first"))
    baseline: Text = field(metadata=about("by the baseline, of several runs by the first"))
    score: Number = field(metadata=about("chrF2 of the sentence, of several runs the mean"))
    baseline_score: Number = field(metadata=about("the same of the baseline"))


@dataclass(frozen=True, kw_only=True)
class Baseline(Open):
    """How the system compares with another one."""

    system: Text = field(metadata=about("the name of the baseline"))
    runs: Whole = field(default=ABSENT, metadata=about("how many runs, if several"))
    significance: Text = field(
        default=ABSENT, metadata=about("how many samples were drawn, and the seed")
    )
    scores: dict[str, Difference] = field(
        default=ABSENT, metadata=about("the differences by the names of the scores")
    )
    ngrams: list[Ngrams] = field(default=ABSENT, metadata=about("the gaps to the baseline"))
    sentences: list[ComparedSentence] = field(
        default=ABSENT,
        metadata=about("those with the largest differences, the gains first"),
    )


@dataclass(frozen=True, kw_only=True)
class Decoding(Open):
    """The speed of one run of fairseq-generate."""

    sentences: Whole = field(default=ABSENT, metadata=about("how many sentences were translated"))
    seconds: Number = field(
        default=ABSENT, metadata=about("how long that took; of several shards the slowest")
    )
    sentences_per_second: Number = field(metadata=about("sentences translated each second"))
    pieces_per_second: Number = field(
        default=ABSENT, metadata=about("pieces generated each second")
    )


@dataclass(frozen=True, kw_only=True)
class Speed(Open):
    """How fast the system translates."""

    translation: Decoding = field(default=ABSENT, metadata=about("without parsing"))
    with_parsing: Decoding = field(default=ABSENT, metadata=about("with parsing of the sources"))


@dataclass(frozen=True, kw_only=True)
class Losses(Open):
    """A point of the learning curve."""

    update: Whole = field(metadata=about("after how many updates"))
    train_loss: Number | None = field(metadata=about("the loss on the training data"))
    valid_loss: Number | None = field(metadata=about("the loss on the validation data"))


@dataclass(frozen=True, kw_only=True)
class Training(Open):
    """How the system was trained."""

    parameters: Whole | None = field(
        default=ABSENT, metadata=about("how many parameters the model has")
    )
    architecture: Text = field(default=ABSENT, metadata=about("the name of the model in fairseq"))
    words_per_second: Number | None = field(
        default=ABSENT, metadata=about("the median of the speeds in the log")
    )
    curve: list[Losses] = field(default=ABSENT, metadata=about("a point for each validation"))


@dataclass(frozen=True, kw_only=True)
class ScoredSystem(Open):
    """The whole file: a system on a test set."""

    version: Whole = field(metadata=about("the version of this format"))
    code: Text = field(
        default=ABSENT,
        metadata=about("the version of the package, with the commit in a checkout"),
    )
    system: Text = field(metadata=about("the name of the system"))
    test: Text = field(metadata=about("the name of the test set"))
    source: Text = field(default=ABSENT, metadata=about("the language of the source"))
    target: Text = field(default=ABSENT, metadata=about("the language of the target"))
    sentences: Whole | None = field(
        default=ABSENT, metadata=about("how many sentences were scored")
    )
    references: Whole | None = field(default=ABSENT, metadata=about("references of each of them"))
    runs: Whole = field(default=ABSENT, metadata=about("how many runs, if several"))
    scores: dict[str, Score] = field(metadata=about("by name, such as BLEU, chrF2, TER"))
    ngrams: list[Ngrams] = field(default=ABSENT, metadata=about("one for each order of n-grams"))
    buckets: dict[str, list[Bucket]] = field(
        default=ABSENT, metadata=about("BLEU grouped by `length`, `depth` and `split_words`")
    )
    words: dict[str, list[WordGroup]] = field(
        default=ABSENT,
        metadata=about(
            "F1 of the words by `frequency` in training, part of speech (`pos`) and `relation`"
        ),
    )
    baseline: Baseline = field(
        default=ABSENT, metadata=about("how the system compares with a baseline")
    )
    speed: Speed = field(
        default=ABSENT,
        metadata=about("from the logs of fairseq-generate"),
    )
    training: Training = field(
        default=ABSENT, metadata=about("how the training went, from the logs of fairseq-train")
    )
    examples: list[Example] = field(
        default=ABSENT, metadata=about("some translated sentences with their attention")
    )
    heads: Heads = field(
        default=ABSENT, metadata=about("what each attention head does over the test set")
    )
