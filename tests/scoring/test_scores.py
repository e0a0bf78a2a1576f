"""Scores are sacrebleu's; what is ours is counted by hand."""

import random
from urllib.error import URLError

import pytest
from sacrebleu.metrics import BLEU

from fairseq_posattn.errors import InputError
from fairseq_posattn.scoring.metrics import buckets, ngrams
from fairseq_posattn.scoring.metrics.comparison import arrow, compared, marked
from fairseq_posattn.scoring.metrics.runs import Samples, counted_by
from fairseq_posattn.scoring.metrics.scores import (
    NIST,
    TOKENISED,
    Scoring,
    Translations,
    split_compounds,
)
from fairseq_posattn.scoring.metrics.texts import Text
from fairseq_posattn.scoring.score_record import Difference
from support.scored_systems import request

REFERENCE = [
    "The dog barks at the old mailman , as dogs do .",
    "Nobody has seen the cat since Tuesday .",
    "It rains .",
    "We shall see what the next day brings us all .",
]
HYPOTHESES = [
    "The dog barks at an old mailman , as the dogs do .",
    "Nobody saw the cat since Tuesday .",
    "It rains now .",
    "We shall see what the next day brings us .",
]
OTHER = ["A dog barked .", "The cat has not been seen since Tuesday .", "Rain .", "Wait and see ."]
PLAIN = request(tokenize="none")


def plain(scoring: Scoring, text: list[str]) -> dict:
    return Translations(scoring, [text]).scores(Samples(2))


def noisy(lines, share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [
        " ".join("no" if draw.random() < share else word for word in line.split()) for line in lines
    ]


# n-grams


@pytest.mark.parametrize("hypotheses", [HYPOTHESES, OTHER, ["a"] * 4, [""] * 4])
@pytest.mark.parametrize("settings", [request(), request(lowercase=True), request("zh")])
def test_every_order_is_that_of_sacrebleu(hypotheses, settings):
    for order in ngrams.by_order(hypotheses, Scoring([REFERENCE], settings)):
        bleu = BLEU(
            max_ngram_order=order.n,
            lowercase=settings.lowercase,
            tokenize="zh" if settings.target_lang else "13a",
        )
        expected = bleu.corpus_score(hypotheses, [REFERENCE])
        assert order.bleu == expected.score
        counts = expected.counts[-1], expected.totals[-1]
        assert order.precision == (100 * counts[0] / counts[1] if counts[1] else 0)


# tokenised BLEU


@pytest.mark.parametrize(
    ("line", "split"),
    [
        ("Bus-Linie", "Bus ##AT##-##AT## Linie"),
        ("Ost-West-Achse", "Ost ##AT##-##AT## West ##AT##-##AT## Achse"),
        ("ein - Strich -", "ein - Strich -"),
        ("A-4-Blatt", "A ##AT##-##AT## 4-Blatt"),  # as Perl's s{(\S)-(\S)}{...}g does
    ],
)
def test_compounds(line, split):
    assert split_compounds(line) == split


def test_tokenised_bleu_by_hand():
    hypothesis, reference = "Die Bus-Linie fährt um 10 Uhr.", "Die Bus-Linie fährt bis 10 Uhr."
    # Die Bus ##AT##-##AT## Linie fährt um 10 Uhr .: 8 of 9, 6 of 8, 4 of 7, 2 of 6
    expected = 100 * (8 / 9 * 6 / 8 * 4 / 7 * 2 / 6) ** 0.25
    found = plain(Scoring([[reference]], request("de")), [hypothesis])[TOKENISED]
    assert found.score == pytest.approx(expected)
    assert found.signature.startswith("nrefs:1|case:mixed|eff:no|tok:none|smooth:none|version:")
    assert found.signature.endswith("|moses:de|compounds:split")


def test_no_smoothing_in_tokenised_bleu():
    scores = plain(Scoring([["a b c d e"]], request("en")), ["a b c x e"])
    assert scores[TOKENISED].score == pytest.approx(0, abs=1e-9)
    assert scores["BLEU"].score > 1
    assert scores[TOKENISED].signature.endswith("|moses:en")


# which scores


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (request("ja"), r"^--target-lang ja: .*pip install .*; or choose .* with --tokenize"),
        (request("ja", "ja-mecab"), r"^--tokenize ja-mecab: .*pip install"),
    ],
)
def test_missing_tokeniser(monkeypatch, settings, message):
    """The message names the option that was given."""
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    with pytest.raises(InputError, match=message):
        plain(Scoring([["a"]], settings), ["a"])


def test_tokeniser_that_cannot_be_fetched(monkeypatch, tmp_path):
    def unreachable(*_):
        raise URLError("no network")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", unreachable)
    with pytest.raises(InputError, match=r"--tokenize flores200: .*no network"):
        plain(Scoring([["a"]], request(tokenize="flores200")), ["a"])


# significance


def marks(hypotheses, baseline) -> dict:
    reference = REFERENCE * 10
    scoring = Scoring([reference], request(tokenize="none", nist=True))
    pair = (Translations(scoring, [lines]) for lines in (baseline, hypotheses))
    return compared(*pair, Samples(1000, 1000))


def test_a_system_against_itself():
    for figures in marks(HYPOTHESES * 10, HYPOTHESES * 10).values():
        assert figures == Difference(difference=0, bootstrap_p=1, randomisation_p=1, mark="")


def test_far_better_and_far_worse():
    """One run of each says nothing of new trainings, so it has no mark; several runs have one."""
    better, worse = noisy(REFERENCE * 10, 0.1, 1), noisy(REFERENCE * 10, 0.5, 2)
    found = marks(better, worse)
    assert found["TER"].difference < 0 < found["BLEU"].difference
    assert list(found) == ["BLEU", "chrF2", "chrF2++", "TER", NIST]
    for figures in found.values():
        assert figures.mark == "" and figures.bootstrap_p < 0.01 > figures.randomisation_p
    scoring = Scoring([REFERENCE * 10], PLAIN)
    runs = [
        Translations(scoring, [noisy(REFERENCE * 10, rate, seed) for seed in range(3)])
        for rate in (0.1, 0.5)
    ]
    up, down = (compared(*pair, Samples(200, 200)) for pair in (runs[::-1], runs))
    for found, mark in ((up, "⇑"), (down, "⇓")):
        pairs = {name: (figures, name == "TER") for name, figures in found.items()}
        assert [figures.mark for figures in marked(pairs).values()] == [mark] * 4
    for figures in up.values():
        low, high = figures.interval
        assert low < figures.difference < high and not low < 0 < high
        assert figures.welch_p < 0.01 > figures.randomisation_p


@pytest.mark.parametrize(
    ("difference", "p", "lower", "mark"),
    [
        (1, 0.009, False, "⇑"),
        (1, 0.049, False, "↑"),
        (1, 0.05, False, ""),
        (-1, 0.049, False, "↓"),
        (-1, 0.009, True, "⇑"),
        (1, 0.049, True, "↓"),
        (0, 0.001, False, ""),
    ],
)
def test_marks(difference, p, lower, mark):
    assert arrow(difference, p, lower) == mark


# buckets


def test_buckets_hold_bleu_of_their_sentences():
    def by_length(*runs):
        metric = BLEU(tokenize="none", references=[REFERENCE])
        table = counted_by(metric, runs)
        splitting = buckets.Splitting(metric, [table], Samples(100))
        return splitting.by_range([3, None, 12, 10], buckets.LENGTHS)

    found = by_length(HYPOTHESES)
    short = BLEU(tokenize="none").corpus_score(
        [HYPOTHESES[0], HYPOTHESES[3]], [[REFERENCE[0], REFERENCE[3]]]
    )
    assert [(b.first, b.last, b.sentences) for b in found] == [(1, 10, 2), (11, 20, 1)]
    assert found[0].bleu == found[0].value == short.score
    assert found[0].interval[0] <= found[0].bleu <= found[0].interval[1]
    several, other = by_length(HYPOTHESES, OTHER), by_length(OTHER)
    assert several[0].bleu == pytest.approx((found[0].bleu + other[0].bleu) / 2)


@pytest.mark.parametrize(
    ("pieces", "separator", "split"),
    [
        ("a b c", "@@", 0),
        ("d@@ o@@ g b c@@ d", "@@", 2),
        ("", "@@", 0),
        ("▁d og ▁b ▁c d", "▁", 2),
        ("▁ a ▁ b c", "▁", 1),
        ("d og ▁b", "▁", 1),
    ],
)
def test_split_words(pieces, separator, split):
    assert buckets.split_words(Text("", [pieces]), separator) == [split]
