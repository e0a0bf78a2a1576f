"""Tables: what is bold, corrected, left out and escaped."""

import csv
import io
import json
import re
from pathlib import Path

from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.tables import lines_of, table_of
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.scoring.tables import Table, write_tables

ROWS = [
    Row("sequence", "base", published={"a": 27.31}, paper="P & Q 2019"),
    Row("structural", "base"),
    Row("structural", "base", name="structural_chain"),
]


def result(folder: Path, name: str, bleu: float, welch: float | None = None, runs: int = 3) -> Path:
    score = {"score": bleu, "signature": "nrefs:1"}
    if runs > 1:
        score |= {"deviation": 0.25, "runs": [bleu] * runs}
    document = {"version": 1, "system": name, "test": "a", "source": "", "target": ""}
    document |= {"sentences": 5, "references": 1, "scores": {"BLEU": score}, "ngrams": []}
    document |= {"buckets": {}, "training": {"parameters": 1_250_000, "words_per_second": 1234.4}}
    if runs > 1:
        document["runs"] = runs
    if welch is not None:
        compared = {"difference": 1.0, "mark": "", "bootstrap_p": 0.1, "randomisation_p": 0.1}
        document["baseline"] = {
            "system": "b",
            "significance": "",
            "scores": {"BLEU": {**compared, "welch_p": welch}},
            "ngrams": [],
        }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return path


def table(folder: Path, *p: float, runs: int = 3) -> tuple[str, list[dict], str]:
    """The three files of a table, in which the later rows have these p against the first."""
    results = {("sequence.base", "a", None): result(folder, "s", 30.0, runs=runs)}
    for row, value in zip(ROWS[1:], p, strict=True):
        path = result(folder, row.title, 31.0, value, runs)
        results[row.system, "a", "sequence"] = path
    write_tables([table_of(lines_of(ROWS, ["a"], results, ["sequence"]))], folder / "t")
    rows = list(csv.DictReader(io.StringIO((folder / "t.csv").read_text())))
    return (folder / "t.md").read_text(), rows, (folder / "t.tex").read_text()


def test_a_table_of_several_seeds(tmp_path):
    """Holm's correction doubles the smaller of the two p values, and leaves the larger as it is."""
    markdown, rows, latex = table(tmp_path, 0.04, 0.01)
    lines = markdown.splitlines()
    assert lines[0] == (
        "| model | size | runs | BLEU | p against sequence | published | parameters | "
        "training words/s | paper |"
    )
    start = "| `sequence` | base | 3 | 30.00 ± 0.25 | – | 27.31 | 1.2 M | 1,234 | P & Q 2019 |"
    assert lines[2] == start
    assert "| **31.00 ± 0.25** | 0.040 | – |" in lines[3]
    assert "| **31.00 ± 0.25** | 0.020 | – |" in lines[4]
    assert "bold: differs from sequence (same size) with p < 0.05" in lines[6]
    assert "With 3 + 3 runs, no exact permutation test can reach a p-value below 0.1;" in lines[7]
    assert lines[8] == "BLEU: `nrefs:1`."
    assert rows[1]["a BLEU"] == "31.00" and rows[1]["a deviation"] == "0.25"
    assert rows[1]["parameters"] == "1250000" and rows[2]["a p against sequence"] == "0.02"
    assert r"sequence & base & 3 & 30.00 $\pm$ 0.25 & -- & 27.31" in latex
    assert r"structural\_chain & base & 3 & \textbf{31.00 $\pm$ 0.25} & 0.020" in latex
    assert r"P \& Q 2019 \\" in latex and r"\toprule" in latex and r"\bottomrule" in latex


def test_a_recipe_of_ones_own_has_no_columns_of_published_figures(tmp_path):
    rows = [Row("sequence", "base"), *ROWS[1:]]
    results = {("sequence.base", "a", None): result(tmp_path, "s", 30.0)}
    write_tables([table_of(lines_of(rows, ["a"], results, ["sequence"]))], tmp_path / "t")
    for end in ("md", "csv", "tex"):
        text = (tmp_path / f"t.{end}").read_text()
        assert "published" not in text and "paper" not in text
    assert r"\begin{tabular}{llrrrrr}" in text
    assert (
        "| `sequence` | base | 3 | 30.00 ± 0.25 | – | 1.2 M | 1,234 |"
        in (tmp_path / "t.md").read_text().splitlines()
    )


def test_what_is_not_significant_after_the_correction_is_not_bold(tmp_path):
    markdown, _, latex = table(tmp_path, 0.03, 0.03)
    assert "**" not in markdown and "textbf" not in latex and "0.060" in markdown


def test_several_baselines_have_the_order_of_the_user(tmp_path):
    """Bold is what differs from the first of them. All p are corrected together, where a model
    against another one is the same test as the other way round: here there are three."""
    p = {("structural", "sequence"): 0.04, ("structural", "structural_chain"): 0.001}
    p |= {("sequence", "structural_chain"): 0.002, ("structural_chain", "sequence"): 0.002}
    results = {
        (f"{name}.base", "a", baseline): result(tmp_path, f"{name}-{baseline}", 31.0, value)
        for (name, baseline), value in p.items()
    }
    lines = lines_of(ROWS, ["a"], results, ["structural_chain", "sequence"])
    write_tables([table_of(lines)], tmp_path / "t")
    rows = [line.split(" | ") for line in (tmp_path / "t.md").read_text().splitlines()]
    assert rows[0][4:6] == ["p against structural_chain", "p against sequence"]
    assert rows[2][3:6] == ["**31.00 ± 0.25**", "0.004", "–"]
    assert rows[3][3:6] == ["**31.00 ± 0.25**", "0.003", "0.040"]
    assert rows[4][3:6] == ["31.00 ± 0.25", "–", "0.004"]


def test_the_test_with_the_fewest_runs_says_what_it_cannot_show(tmp_path):
    """Five runs against five could go below p = 0.01, but two of one model against five cannot."""
    results = {
        ("sequence.base", "a", None): result(tmp_path, "s", 30.0, runs=5),
        ("structural.base", "a", "sequence"): result(tmp_path, "t", 31.0, 0.04, runs=5),
        ("structural_chain.base", "a", "sequence"): result(tmp_path, "c", 31.0, 0.01, runs=2),
    }
    write_tables([table_of(lines_of(ROWS, ["a"], results, ["sequence"]))], tmp_path / "t")
    text = (tmp_path / "t.md").read_text()
    assert "With 5 + 2 runs, no exact permutation test can reach a p-value below 0.048" in text


def test_single_runs_are_never_significant(tmp_path):
    markdown, rows, _ = table(tmp_path, None, None, runs=1)
    assert "| `structural` | base | 1 | 31.00 |" in markdown and "**" not in markdown
    assert {row["a deviation"] for row in rows} == {""}


def test_what_is_missing(tmp_path):
    lines = lines_of(ROWS, ["a"], {("structural.base", "a", None): result(tmp_path, "s", 31.0)})
    write_tables([table_of(lines)], tmp_path / "t")
    text = (tmp_path / "t.md").read_text()
    assert "| `sequence` | base | – | – | 27.31 | – | – | P & Q 2019 |" in text


def test_hostile_names_stay_text_in_each_format(tmp_path):
    names = ["=1+A1", "[2cm]a", "*b", "c\n| d | \x1b[31m\u202e", "<img src=x> `e\\|"]
    rows = [Row("sequence", "base", name=name, paper=name) for name in names]
    lines = lines_of(rows, ["a"], {})
    write_tables([table_of(lines)], tmp_path / "t")
    table = Table(names[3], ["model"], [[name] for name in names], [names[3]])
    write_tables([table], tmp_path / "p")
    for start, width in (("t", 7), ("p", 1)):
        text = {end: (tmp_path / f"{start}.{end}").read_text() for end in ("md", "tex", "csv")}
        assert not {"\x1b", "\u202e"} & set("".join(text.values()))
        found = [line for line in text["md"].splitlines() if line.startswith("| ")][1:]
        assert [len(re.sub(r"\\.", "", row).split("|")) - 2 for row in found] == [width] * 5
        assert r"\<img" in found[4] and r"c\n\| d \| \x1b[31m\u202e" in found[3]
        latex = [line for line in text["tex"].splitlines() if line[0] not in "\\%"][1:]
        assert [row[:4] for row in latex] == ["=1+A", "{[}2", "{*}b", "c\\te", "$<$i"]
        columns = list(csv.DictReader(io.StringIO(text["csv"])))
        assert [row["model"] for row in columns] == [
            "'=1+A1",
            *names[1:3],
            *map(visible, names[3:]),
        ]
