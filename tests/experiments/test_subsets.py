"""What a recipe says of its main score and of labels: refused, copied, scored, shown."""

import json

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.experiments.recipe_content import Row
from fairseq_posattn.experiments.recipe_options import Table
from fairseq_posattn.experiments.scoring import check_labels, score
from fairseq_posattn.experiments.tables import (
    lines_of,
    main_of,
    table_of,
    write_parts,
    write_sweep,
)
from fairseq_posattn.experiments.translation import Translation
from fairseq_posattn.scoring.tables import write_tables
from support.files import lines_of as lines_in
from support.files import write

RECIPE = """
title = "x"
source = "en"
target = "de"
corpus = { valid = "dev", tests = ["gen", "test"] }
models = [{ model = "sequence", size = "base" }]
sizes.base = { arch = "_tiny", updates = 2, batch_tokens = 1000 }

[evaluation]
main = "exact"
subsets.gen = ["category"]
published."a parser" = { deep = 40.6, mean = 70.8 }
"""


def experiment_of(folder, *changes: tuple[str, str], dry_run: bool = False) -> Translation:
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    write(folder / "recipe.toml", text)
    return Translation(Table(recipe=str(folder), dry_run=dry_run))


def test_labels_are_copied_beside_their_test_set_and_checked(tmp_path):
    experiment = experiment_of(tmp_path)
    experiment.raw.mkdir(parents=True)
    for name in ("train", "dev", "gen", "test"):
        for language in ("en", "de"):
            write(tmp_path / f"from/{name}.{language}", ["a", "b"])
    collector = Collector(
        experiment.recipe, experiment.shell, tmp_path / "from", experiment.raw, True
    )
    with pytest.raises(InputError, match=r"from/gen.category: the file does not exist, nor "):
        collector.collect()
    write(tmp_path / "from/gen.category", ["deep", "flat"])
    collector.collect()
    check_labels(experiment)
    assert lines_in(experiment.raw / "gen.category") == ["deep", "flat"]
    write(experiment.raw / "gen.category", ["flat", "flat"])
    with pytest.raises(InputError) as refused:
        check_labels(experiment)
    assert str(refused.value) == (
        f"{tmp_path}/recipe.toml: evaluation.published.a parser contains 'deep', but no sentence "
        "has this label; correct the recipe"
    )
    write(experiment.raw / "gen.category", ["deep", "mean"])
    with pytest.raises(
        InputError, match=r"gen.category:2: the label 'mean' is reserved for the mean"
    ):
        check_labels(experiment)
    write(experiment.raw / "gen.category", ["deep"])
    with pytest.raises(InputError, match=r"gen.en has 2 lines, but .*gen.category has 1 labels"):
        check_labels(experiment)


def test_a_score_reads_the_labels_of_its_test_set(tmp_path, capsys):
    experiment = experiment_of(tmp_path, dry_run=True)
    [(_, run)] = experiment.planned([experiment.recipe.row("sequence", None)], [1])
    out = [score(experiment, [run], [], test) for test in ("gen", "test")]
    printed = capsys.readouterr().out.split("fairseq_posattn score")[1:]
    assert f"--subsets category={experiment.raw}/gen.category" in printed[0]
    assert "--subsets" not in printed[1] and all("--main exact" in text for text in printed)
    plain = experiment_of(tmp_path, ('subsets.gen = ["category"]', ""), dry_run=True)
    others = [score(plain, [run], [], test) for test in ("gen", "test")]
    assert out[0] != others[0] and out[1] == others[1]


def result(folder, name: str, exact: float, p: float | None = None):
    """Scores by exact match, with one label and one range."""
    signature = {"signature": "nrefs:1"}
    difference = {"difference": 10.0, "bootstrap_p": 0.001, "welch_p": p, "mark": ""}
    part = {"sentences": 5, "score": exact, "deviation": 1.0, "interval": [exact, exact]}
    if p is not None:
        part["difference"] = difference
    about = {"version": 1, "system": name, "test": "gen", "runs": 5, "main": "exact"}
    about["scores"] = {
        "BLEU": {"score": 80.0, **signature},
        "NIST BLEU": {"score": 81.0, **signature},
    }
    about["scores"]["exact"] = {"score": exact, "deviation": 1.5, **signature}
    about["buckets"] = {"depth": [{"from": 0, "to": 2, **part}]}
    labels = [{"name": "deep", **part}]
    about["subsets"] = {"category": {"labels": labels, "mean": part}}
    if p is not None:
        bleu = {**difference, "welch_p": 0.9}
        about["baseline"] = {"system": "sequence", "scores": {"BLEU": bleu, "exact": difference}}
    return write(folder / f"{name}.json", json.dumps(about))


def test_the_chosen_score_stands_in_the_tables(tmp_path, capsys):
    rows = [Row("sequence", "base"), Row("structural", "base")]
    files = [result(tmp_path, "sequence", 20.0), result(tmp_path, "structural", 30.0, 0.002)]
    results = {
        (row.system, "gen", None if k == 0 else "sequence"): files[k] for k, row in enumerate(rows)
    }
    table = table_of(lines_of(rows, ["gen"], results, ["sequence"]))
    lines = write_tables([table], tmp_path / "t")
    assert lines[0].startswith("| model | size | runs | exact | p against sequence |")
    assert "| `structural` | base | 5 | **30.00 ± 1.50** | 0.002 |" in lines[3]
    assert lines[-1] == "exact: `nrefs:1`."
    assert "gen exact,gen deviation" in lines_in(tmp_path / "t.csv")[0]
    write_parts(files, {"a parser": {"deep": 40.6}}, tmp_path / "subsets")
    shown = capsys.readouterr().out
    assert "| deep | 5 | 20.0 [20.0, 20.0] | **30.0 [30.0, 30.0]** | 40.6 |" in shown
    text = (tmp_path / "subsets.md").read_text()
    assert "gen: exact by category:" in shown and "by depth" not in shown
    assert "gen: exact by category:" in text and "gen: exact by depth:" in text
    assert all((tmp_path / f"subsets.{end}").exists() for end in ("csv", "tex"))


def test_a_sweep_by_the_chosen_score(tmp_path):
    found = main_of(result(tmp_path, "sequence", 20.0), "exact")
    text = write_sweep({("size", 3): 25.0}, found, tmp_path / "sweep", "exact")
    assert text.splitlines()[0] == "| series | value | exact |" and "| 20.00 |" in text
    with pytest.raises(InputError, match="the file contains no chrF2 score; delete it"):
        main_of(tmp_path / "sequence.json", "chrF2")
