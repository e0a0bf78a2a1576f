"""The count of false alarms: what an effect of the run does to tests that do not know of it."""

import json
import sys

import pytest

from support.commands import ROOT, run

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
    assert large[SENTENCES] > 0.5 < large[DEALT]
    assert large[WELCH] < 0.25


@pytest.mark.long
def test_a_gain_is_found_and_one_run_has_no_test_of_new_trainings(tmp_path):
    found, one = rates(tmp_path, "--runs", 3, 1, "--run-sigma", 0, "--gain", 8)
    assert min(found[name] for name in (SENTENCES, DEALT, WELCH)) > 0.9
    assert one[WELCH] is None and found["gain"] == 8
