"""Sentences on which two systems differ most, and what is marked in their translations."""

import json
import sys

import pytest
from sacrebleu.metrics import CHRF

from fairseq_posattn.files.records import ABSENT
from fairseq_posattn.report import report
from fairseq_posattn.report.sections import marked
from fairseq_posattn.report.systems import read_systems
from fairseq_posattn.scoring.metrics.comparison import most_different
from fairseq_posattn.scoring.metrics.scores import Scoring, Translations
from support.commands import run
from support.files import write
from support.scored_systems import request

REFERENCES = ["der Hund bellt laut", "die Katze schläft heute", "ein Vogel singt", "es regnet"]
BEFORE = ["der Hund bellt laut", "eine Katze liegt da", "ein Vogel singt", "es schneit sehr"]
AFTER = ["ein Hund ruft", "die Katze schläft heute", "ein Vogel singt", "es regnet nicht"]


def different(*runs, count=5, before=(BEFORE,), source=None):
    scoring = Scoring([REFERENCES], request())
    systems = Translations(scoring, before), Translations(scoring, runs)
    return most_different(*systems, source or [None] * len(REFERENCES), count)


def test_the_largest_differences_stand_at_both_ends():
    """The scores are those of sacrebleu's own function for one sentence."""
    found = different(AFTER)
    assert [sentence.number for sentence in found] == [1, 3, 0]  # 2 is the same in both
    for sentence in found:
        k = sentence.number
        reference = [REFERENCES[k]]
        assert sentence.score == pytest.approx(CHRF().sentence_score(AFTER[k], reference).score)
        before = CHRF().sentence_score(BEFORE[k], reference).score
        assert sentence.baseline_score == pytest.approx(before)
        assert (sentence.translation, sentence.baseline) == (AFTER[k], BEFORE[k])
        assert sentence.source is ABSENT
    assert [sentence.number for sentence in different(AFTER, count=1)] == [1, 0]
    assert different(AFTER, count=0) == []


@pytest.mark.parametrize("count", [4, 5, 6, 9])
def test_all_that_got_worse_are_among_them(count):
    """Also where more are asked for than there are."""
    worse = [line[:-3] for line in REFERENCES]
    assert len(different(worse, before=[REFERENCES], count=count)) == len(REFERENCES)


def test_several_runs_have_their_mean():
    [first, *_] = different(AFTER, BEFORE, before=[BEFORE, BEFORE])
    scores = [CHRF().sentence_score(run[1], [REFERENCES[1]]).score for run in (AFTER, BEFORE)]
    assert first.number == 1 and first.score == pytest.approx(sum(scores) / 2)
    assert first.translation == AFTER[1]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a b c", "a b c", ([("a b c", False)], [("a b c", False)])),
        (
            "a b c d",
            "a x y d",
            (
                [("a", False), ("b c", True), ("d", False)],
                [("a", False), ("x y", True), ("d", False)],
            ),
        ),
        ("a", "", ([("a", True)], [])),
        (
            "犬が走る",
            "猫が走る",
            ([("犬", True), ("が走る", False)], [("猫", True), ("が走る", False)]),
        ),
    ],
)
def test_what_is_marked(before, after, expected):
    assert marked(before, after) == expected


@pytest.mark.long(ci=True)
def test_the_report_shows_them(tmp_path):
    paths = {
        name: write(tmp_path / name, lines)
        for name, lines in {"ref": REFERENCES, "before": BEFORE, "after": AFTER}.items()
    }
    source = write(tmp_path / "words", ["the dog barks", "the <b>cat</b> sleeps", "a bird", "it"])
    options = ["--references", paths["ref"], "--baseline", paths["before"], "--source", source]
    options += ["--json", tmp_path / "a.json", "--sentences"]
    score = [sys.executable, "-m", "fairseq_posattn.cli.score", paths["after"], *options]
    run(*score, 1)
    kept = json.loads((tmp_path / "a.json").read_text())["baseline"]["sentences"]
    assert [sentence["number"] for sentence in kept] == [1, 0]
    page = report.page(read_systems([tmp_path / "a.json"]))
    assert "Sentences that differ most" in page and "Sentence 1, chrF2" in page
    assert "the &lt;b&gt;cat&lt;/b&gt; sleeps" in page
    assert "<mark>eine</mark>" in page and "<mark>ruft</mark>" in page
    run(*score, 0)
    assert "Sentences that differ most" not in report.page(read_systems([tmp_path / "a.json"]))
