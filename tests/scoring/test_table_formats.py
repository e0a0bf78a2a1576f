"""Tables in three formats."""

import csv

from fairseq_posattn.scoring.tables import (
    Table,
    in_csv,
    in_latex,
    mean_cell,
    terminal,
    write_tables,
)

TABLES = [
    Table("Right", ["model", "all", "range", "size"], [
        ["a|b", mean_cell([90, 92]), mean_cell([1, 2, 6], 1, as_range=True), mean_cell([12345], 0)],
        ["c_d", mean_cell([]), mean_cell([], 1, as_range=True), mean_cell([5], 0)],
    ], ["A note."]),
    Table("Left", ["model", "all"], [["a", mean_cell([50])]]),
]  # fmt: skip


def test_tables_in_three_formats(tmp_path):
    printed = write_tables(TABLES, tmp_path / "table")
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


def test_names_in_tables_cannot_steer_the_terminal():
    table = Table("a\x1b", ["b\x1b"], [["c\x1b"]], ["d\x1b"], layout="{}")
    assert "\x1b" not in "".join(terminal([table]))


def test_signs_of_latex():
    assert in_latex("a_b & 5 % # {x} \\ ~ ^ $ ±") == (
        r"a\_b \& 5 \% \# \{x\} \textbackslash{} \textasciitilde{} \textasciicircum{} \$ $\pm$"
    )


HOSTILE = ['=HYPERLINK("x")', "@a", "+a", "-2+3+cmd|' /C calc'!A0", "＝a"]
HARMLESS = ["", "-0.5", "+1e-05", "-1.25 (-2.00 to 0.50)", "-3 ± 1", "a=b", "name", "Hund", "–"]


def test_a_spreadsheet_finds_no_formula():
    assert [in_csv(text) for text in HOSTILE] == [f"'{text}" for text in HOSTILE]
    assert [in_csv(text) for text in HARMLESS] == HARMLESS
