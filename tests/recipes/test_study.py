"""The studies of the recipes: what is kept of their runs, and the tables of Multi30k's probes."""

import csv
import re

import pytest

from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.experiments.study import check_pools, stored_runs
from fairseq_posattn.probing.results import read_probes
from fairseq_posattn.probing.tables import Results, all_tables
from fairseq_posattn.scoring.tables import markdown, rows_for_programs
from support.commands import ROOT

RECIPES = ROOT / "recipes"
FOLDER = RECIPES / "multi30k_en_de"


@pytest.mark.parametrize("recipe", sorted(path.parent.name for path in RECIPES.glob("*/study")))
def test_each_run_has_its_results_and_its_options(recipe):
    tests = read_recipe(recipe).content.corpus.tests
    runs = stored_runs(RECIPES / recipe / "study")
    files = {path.name for path in (RECIPES / recipe / "study").glob("*.xz")}
    assert files == {run.scored(test).name for run in runs for test in tests}
    check_pools(runs)
    for run in runs:
        assert run.record.references.keys() == set(tests)
        assert (RECIPES / recipe / f"study/{run.name}.json").exists()


@pytest.mark.long(ci=True)
def test_the_tables_of_the_probes_are_those_of_the_kept_results():
    """The accuracies on the page, and probes.csv, come from study/probes."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    paths = sorted(map(str, FOLDER.glob("study/probes/*.json")))
    results = Results([read_probes(path) for path in paths], paths)
    tables = markdown(all_tables(results))
    text = re.sub(r" ± ([\d.]+)", r" (\1)", "\n".join(tables))  # as the page has deviations
    found = [line for line in text.splitlines() if line.startswith("| ")]
    shown = [line.replace(", above untrained", "") for line in found]
    of_page = page[page.index("## Study: what do the encoders know?") :]
    rows = [
        r for r in of_page.splitlines() if re.match(r"\| (majority|sequence|relative|struct)", r)
    ]
    assert len(rows) == 1 + 5
    for row in rows:  # the page leaves the last columns out
        assert any(line.startswith(row) for line in shown), row
    kept = (FOLDER / "study/probes.csv").read_text(encoding="utf-8").splitlines()
    assert list(csv.reader(kept)) == list(rows_for_programs(all_tables(results)))
