"""The count of false alarms: what an effect of the run does to tests that do not know of it."""

import json
import sys

import numpy as np
import pytest

from support.commands import ROOT, run, script

SCRIPT = ROOT / "recipes/benchmark/false_alarms.py"
SMALL = ["--trials", 40, "--sentences", 60, "--samples", 60, "--difficulty", 5, "--noise", 5]
SENTENCES, DEALT, BOTH, WELCH = (
    "bootstrap over sentences, first runs",
    "randomisation",
    "bootstrap",
    "Welch",
)


def rates(tmp_path, *options) -> list[dict]:
    out = tmp_path / "rates.json"
    run(sys.executable, SCRIPT, *SMALL, *options, "--json", out)
    return json.loads(out.read_text())


def test_runs_that_differ_deceive_tests_over_sentences(tmp_path):
    without, large = rates(tmp_path, "--runs", 4, "--run-sigma", 0, 4)
    for name in (SENTENCES, DEALT, BOTH, WELCH):
        assert without[name] < 0.25  # 0.05, or less, with a deviation of 0.035
    assert large[SENTENCES] > 0.4 < large[DEALT]
    assert large[BOTH] < 0.25 > large[WELCH]


def test_sentences_that_systems_prefer_deceive_the_test_over_runs(tmp_path):
    [found] = rates(tmp_path, "--runs", 5, "--run-sigma", 0, "--preference", 8)
    assert found[WELCH] > 0.25 > found[BOTH]


@pytest.mark.long
def test_a_gain_is_found_and_one_run_has_no_test_of_new_trainings(tmp_path):
    found, one = rates(tmp_path, "--runs", 3, 1, "--run-sigma", 0, "--gain", 8)
    assert min(found[name] for name in (SENTENCES, DEALT, WELCH)) > 0.9
    assert one[WELCH] is None and found["gain"] == 8


def test_deviations_of_drawn_runs_are_found_again():
    dice = np.random.default_rng(1)
    sentences = dice.normal(0, 5, 3000)
    numbers = sentences + dice.normal(0, 2, (400, 1)) + dice.normal(0, 3, (400, 3000))
    difficulty, effect, noise = script(SCRIPT).deviations(numbers)
    assert difficulty == pytest.approx(25, rel=0.1)
    assert effect == pytest.approx(4, rel=0.2)
    assert noise == pytest.approx(9, rel=0.02)


def test_runs_that_are_the_same_have_no_deviation(tmp_path):
    """The sentences of two runs differ; the runs do not, and nothing is left for the noise."""
    texts = {"ref": ["a dog", "the cat", "one"], "first": ["a dog", "a cat", "two"]}
    texts["second"] = texts["first"]
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    like = ["--like", *(tmp_path / name for name in texts)]
    printed = run(sys.executable, SCRIPT, *SMALL, *like).stdout
    assert "chrF2 of 2 runs of 1 systems" in printed and "runs 0.000, noise 0.00" in printed
    short = run(sys.executable, SCRIPT, *like[:3], check=False)
    assert short.returncode == 1 and "name a reference and two runs or more" in short.stdout
