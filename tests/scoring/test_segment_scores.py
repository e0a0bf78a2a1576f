"""Numbers that another program gave the sentences: read, averaged, compared, refused."""

import random
import re
import statistics

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.report.report import page
from fairseq_posattn.report.score_tables import difference_tables, score_columns
from fairseq_posattn.report.systems import read_system
from fairseq_posattn.scoring.score_record import SEGMENTS
from fairseq_posattn.scoring.statistics import welch
from fairseq_posattn.scoring.system_tables import digits_of

SENTENCES = [f"sentence number {k}" for k in range(12)]


def numbers(mean: float, seed: int) -> list[str]:
    dice = random.Random(seed)
    return [f"{dice.gauss(mean, 0.02):.4f}" for _ in SENTENCES]


@pytest.fixture
def scored(scored, write):
    """Score copies of the reference, with segment scores; return the JSON."""
    run, text = scored, write("text", SENTENCES)

    def scored(*options, runs=3, others=3):
        given = [*[text] * runs, "--references", text, "--samples", 200]
        return run(*given, "--baseline", *[text] * others, *options)

    return scored


def test_they_are_treated_like_other_metrics(scored, write, capsys):
    ours, theirs = (
        [numbers(mean, seed + k) for k in range(3)] for mean, seed in ((0.85, 1), (0.80, 7))
    )
    given = [f"COMET={write(f'ours{k}', lines)}" for k, lines in enumerate(ours)]
    base = [f"COMET={write(f'theirs{k}', lines)}" for k, lines in enumerate(theirs)]
    found = scored("--segment-scores", *given, "--baseline-segment-scores", *base)
    means = [[statistics.mean(map(float, lines)) for lines in runs] for runs in (ours, theirs)]
    comet = found["scores"]["COMET"]
    assert comet["runs"] == pytest.approx(means[0])
    assert comet["score"] == pytest.approx(statistics.mean(means[0]))
    assert comet["deviation"] == pytest.approx(statistics.stdev(means[0]))
    assert comet["interval"][0] < comet["score"] < comet["interval"][1]
    compared = found["baseline"]["scores"]["COMET"]
    gap = statistics.mean(means[0]) - statistics.mean(means[1])
    assert compared["difference"] == pytest.approx(gap)
    assert compared["welch_p"] == pytest.approx(welch(means[1], means[0]))
    assert compared["randomisation_p"] < 0.02 and compared["mark"] in ("↑", "⇑")
    assert "COMET" in capsys.readouterr().out


def test_lower_may_be_better(scored, write, tmp_path, capsys):
    given = [
        f"MetricX={write(f'{side}{k}', numbers(mean, k))}"
        for side, mean in (("ours", 2.0), ("theirs", 3.0))
        for k in range(3)
    ]
    options = ["--segment-scores", *given[:3], "--baseline-segment-scores", *given[3:]]
    found = scored(*options, "--lower-is-better", "MetricX")
    assert found["scores"]["MetricX"]["lower_is_better"] is True
    assert found["baseline"]["scores"]["MetricX"]["mark"] == "⇑"
    assert "\nlower is better: TER, MetricX\n" in capsys.readouterr().out
    system = read_system(tmp_path / "out.json")
    [table] = difference_tables([system], with_test=False)
    scores = [row[-6] for row in table.rows]
    assert scores[3:] == ["TER (lower is better)", "MetricX (lower is better)"]
    text = page([system])
    for name in ("TER", "MetricX"):
        assert f"for {name}, lower is better" in text
    columns = score_columns([read_system(tmp_path / "out.json")])
    assert {column.title: column.better for column in columns}["MetricX"] == -1
    assert scored(*options)["baseline"]["scores"]["MetricX"]["mark"] == "⇓"


def test_one_run_without_a_baseline_of_its_own(scored, write):
    found = scored("--segment-scores", f"COMET={write('one', numbers(0.8, 1))}", runs=1, others=1)
    assert "runs" not in found["scores"]["COMET"]
    assert "COMET" not in found["baseline"]["scores"]


@pytest.mark.parametrize(
    ("lines", "option", "message"),
    [
        (["0.5"] * 11, "COMET={}", "numbers has 11 lines, but there are 12 sentences"),
        (["0.5"] * 11 + ["good"], "COMET={}", "numbers:12: found 'good', expected a number"),
        *(
            (["0.5", odd] * 6, "COMET={}", f"numbers:2: found '{odd}', expected a number")
            for odd in ("1_0", "٣", "+1", "", "1e400", "nan")
        ),
        (["0.5"] * 12, "{}", "expect NAME=FILE, such as COMET=comet.txt"),
    ],
)
def test_what_is_refused(scored, write, lines, option, message):
    given = option.format(write("numbers", lines))
    with pytest.raises(InputError, match=re.escape(message)):
        scored("--segment-scores", given, runs=1, others=1)


def test_files_and_names_must_fit(scored, write):
    given = f"COMET={write('numbers', numbers(0.8, 1))}"
    with pytest.raises(InputError, match="has 1 files of segment scores for 3 translations"):
        scored("--segment-scores", given)
    with pytest.raises(InputError, match="chrF has no segment scores; add --segment-scores chrF="):
        scored("--segment-scores", given, "--lower-is-better", "chrF", runs=1, others=1)


def test_small_numbers_have_four_digits():
    """Scores of COMET, which lie between 0 and 1, have four digits; a BLEU of 0.84 has two."""
    assert digits_of(0.84, SEGMENTS) == 4 and digits_of(26.0, SEGMENTS) == 2
    assert digits_of(0.84, "nrefs:1|case:mixed") == 2


def test_how_programs_write_numbers(scored, write):
    lines = ["0.5", "-1e-3", "2E+05", "1.", ".25", "0", "-0", "10", "1e-07", " 3", "4 ", "123.25"]
    given = f"COMET={write('numbers', lines)}"
    found = scored("--segment-scores", given, runs=1, others=1)["scores"]["COMET"]["score"]
    assert found == pytest.approx(statistics.mean(map(float, lines)))
