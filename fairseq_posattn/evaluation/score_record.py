"""The JSON of a scored system: what posattn-score writes, and what posattn-report reads.

Checks come from these classes, and so does docs/score_json.md: see score_document.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fairseq_posattn.evaluation.example_record import Example
from fairseq_posattn.evaluation.json_values import Number, Text, Whole
from fairseq_posattn.io.records import ABSENT, Open, about

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Score(Open):
    """A score of the whole test set."""

    score: Number = field(metadata=about("the score of the whole test set"))
    signature: Text = field(metadata=about("how it was computed, as sacrebleu writes it"))
    brevity_penalty: Number = field(default=ABSENT, metadata=about("brevity penalty of BLEU"))
    precisions: list[Number] = field(
        default=ABSENT, metadata=about("precisions of BLEU, for n = 1 … 4")
    )


@dataclass(frozen=True, kw_only=True)
class Ngrams(Open):
    """Figures for one order of n-grams, or gaps between those of two systems."""

    n: Whole = field(metadata=about("the order, from 1 to 8"))
    bleu: Number = field(metadata=about("BLEU with n-grams up to this order"))
    precision: Number = field(metadata=about("precision of the n-grams of this order alone"))


@dataclass(frozen=True, kw_only=True)
class Bucket(Open):
    """BLEU of the sentences that are alike in their length, depth or split words."""

    first: Whole = field(metadata=about("the smallest value in the bucket", key="from"))
    last: Whole | None = field(metadata=about("the largest value in it; null: no end", key="to"))
    sentences: Whole = field(metadata=about("how many sentences lie in it"))
    bleu: Number = field(metadata=about("BLEU of these sentences"))


@dataclass(frozen=True, kw_only=True)
class Difference(Open):
    """What a score gains over that of the baseline, and whether that could be chance."""

    difference: Number = field(metadata=about("the score minus that of the baseline"))
    bootstrap_p: Number | None = field(
        default=ABSENT, metadata=about("p value of the paired bootstrap")
    )
    randomisation_p: Number | None = field(
        default=ABSENT, metadata=about("p value of paired approximate randomisation")
    )
    mark: Text = field(
        metadata=about("⇑ better, ⇓ worse with p < 0.01; ↑ ↓ with p < 0.05; bootstrap")
    )


@dataclass(frozen=True, kw_only=True)
class Baseline(Open):
    """The comparison with another system."""

    system: Text = field(metadata=about("name of the baseline"))
    significance: Text = field(
        default=ABSENT, metadata=about("how many samples were drawn, and the seed")
    )
    scores: dict[str, Difference] = field(
        default=ABSENT, metadata=about("differences, by the name of the score")
    )
    ngrams: list[Ngrams] = field(
        default=ABSENT, metadata=about("gaps to the baseline, for each order of n-grams")
    )


@dataclass(frozen=True, kw_only=True)
class Decoding(Open):
    """The speed of one run of fairseq-generate."""

    sentences: Whole = field(default=ABSENT, metadata=about("how many sentences were translated"))
    seconds: Number = field(
        default=ABSENT, metadata=about("how long that took; of several shards the slowest")
    )
    sentences_per_second: Number = field(metadata=about("sentences in a second"))
    pieces_per_second: Number = field(
        default=ABSENT, metadata=about("pieces of the translation in a second")
    )


@dataclass(frozen=True, kw_only=True)
class Speed(Open):
    """How fast the system translates."""

    translation: Decoding = field(default=ABSENT, metadata=about("of translation alone"))
    with_parsing: Decoding = field(
        default=ABSENT, metadata=about("of translation that parses meanwhile")
    )


@dataclass(frozen=True, kw_only=True)
class Losses(Open):
    """A point of the learning curve."""

    update: Whole = field(metadata=about("after how many updates"))
    train_loss: Number | None = field(metadata=about("loss on the training data"))
    valid_loss: Number | None = field(metadata=about("loss on the validation data"))


@dataclass(frozen=True, kw_only=True)
class Training(Open):
    """How the system was trained."""

    parameters: Whole | None = field(
        default=ABSENT, metadata=about("how many parameters the model has")
    )
    architecture: Text = field(default=ABSENT, metadata=about("the model's name in fairseq"))
    words_per_second: Number | None = field(
        default=ABSENT, metadata=about("median of the speeds in the log")
    )
    curve: list[Losses] = field(default=ABSENT, metadata=about("a point for each validation"))


@dataclass(frozen=True, kw_only=True)
class ScoredSystem(Open):
    """A system on a test set: the whole file."""

    version: Whole = field(metadata=about("version of this format"))
    system: Text = field(metadata=about("name of the system"))
    test: Text = field(metadata=about("name of the test set"))
    source: Text = field(default=ABSENT, metadata=about("language of the source"))
    target: Text = field(default=ABSENT, metadata=about("language of the target"))
    sentences: Whole | None = field(
        default=ABSENT, metadata=about("how many sentences were scored")
    )
    references: Whole | None = field(
        default=ABSENT, metadata=about("how many references each of them has")
    )
    scores: dict[str, Score] = field(
        metadata=about("scores by their names, such as BLEU, chrF2, TER")
    )
    ngrams: list[Ngrams] = field(default=ABSENT, metadata=about("scores for each order of n-grams"))
    buckets: dict[str, list[Bucket]] = field(
        default=ABSENT, metadata=about("BLEU by `length`, `depth` and `split_words`")
    )
    baseline: Baseline = field(default=ABSENT, metadata=about("comparison with a baseline"))
    speed: Speed = field(
        default=ABSENT, metadata=about("speed of decoding, from the logs of fairseq-generate")
    )
    training: Training = field(
        default=ABSENT, metadata=about("course of the training, from the logs of fairseq-train")
    )
    examples: list[Example] = field(
        default=ABSENT, metadata=about("translated sentences with their attention")
    )
