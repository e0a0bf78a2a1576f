"""The tables of trials, in three formats, and the tests over their seeds."""

import csv

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments.trials import trial_class
from fairseq_posattn.lab.scoring.plain_tables import Figures, Table, p_values, write
from fairseq_posattn.lab.scoring.statistics import welch

TABLES = [
    Table("Right", ["model", "all", "range", "size"], [
        ["a|b", Figures([90, 92]), Figures([1, 2, 6], 1, as_range=True), Figures([12345], 0)],
        ["c_d", Figures([]), Figures([], 1, as_range=True), Figures([5], 0)],
    ], ["A note."]),
    Table("Left", ["model", "all"], [["a", Figures([50])]]),
]  # fmt: skip


def test_tables_in_three_formats(tmp_path):
    printed = write(TABLES, tmp_path / "table")
    assert printed == [
        *("Right:", "", "| model | all | range | size |", "|---|---|---|---|"),
        r"| a\|b | 91.00 ± 1.41 | 3.0 (1.0 to 6.0) | 12,345 |",
        "| c_d | – | – | 5 |",
        *("", "A note.", "", "Left:", "", "| model | all |", "|---|---|", "| a | 50.00 |"),
    ]
    assert (tmp_path / "table.md").read_text().splitlines() == printed
    with open(tmp_path / "table.csv", newline="") as file:
        assert list(csv.reader(file)) == [
            ["table", "model", "all", "all deviation", "range", "range lowest", "range highest"]
            + ["size"],
            ["Right", "a|b", "91.00", "1.41", "3.0", "1.0", "6.0", "12345"],
            ["Right", "c_d", "", "", "", "", "", "5"],
            ["table", "model", "all"],
            ["Left", "a", "50.00"],
        ]
    latex = (tmp_path / "table.tex").read_text()
    assert r"c\_d & -- & -- & 5 \\" in latex and r"91.00 $\pm$ 1.41" in latex
    assert latex.count(r"\toprule") == 2 and "% A note." in latex


def test_tests_over_seeds_are_corrected_together():
    """Two tests: the smaller p is doubled, the larger one stays (Holm)."""
    figures = {"t": {"base": [1.0, 2.0, 3.0], "x": [8.0, 9.0, 11.0], "y": [3.0, 4.0, 6.0]}}
    of_x, of_y = (welch(figures["t"]["base"], figures["t"][name]) for name in ("x", "y"))
    assert of_x < of_y and 2 * of_x > 0.001
    assert p_values(figures, "base") == {("t", "x"): f"{2 * of_x:.3f}", ("t", "y"): f"{of_y:.3f}"}
    assert p_values({"t": {"base": [1.0], "x": [2.0]}}, "base") == {}


def test_a_trial_without_its_class(tmp_path):
    (tmp_path / "recipe.toml").touch()
    assert trial_class(tmp_path / "recipe.toml") is None
    (tmp_path / "trial.py").write_text("class Recipe: pass\n")
    with pytest.raises(InputError, match=r"trial\.py: the file contains no class Recipe derived"):
        trial_class(tmp_path / "recipe.toml")
    (tmp_path / "trial.py").write_text("import no_such_module\n")
    with pytest.raises(InputError, match=r"cannot be imported .*no_such_module"):
        trial_class(tmp_path / "recipe.toml")
