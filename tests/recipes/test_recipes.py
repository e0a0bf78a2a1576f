"""These tests run the recipes as a user does, and check the arithmetic of their tables."""

import json
import os
import sys

import pytest

from support import warm
from support.commands import ROOT, run, script
from support.experiments import Experiment

sys.path.insert(0, str(ROOT / "recipes/benchmark"))


@pytest.mark.long(ci=["first"])
@pytest.mark.parametrize("door", ["first", "all"])
def test_the_toy_recipe_shows_what_trees_are_good_for(tmp_path, door):
    """The tree decides what the string leaves open.

    A model that reads the string alone is right on at most half of the ambiguous sentences, and one
    that knows depths too on at most half of the ties, however long they train.
    """
    names = {"first": ["sequence", "full_tree"], "all": ["no_positions", "depth"]}[door]
    experiment = Experiment("toy", tmp_path)
    more = ["--all", "--updates", 800, "--models", *names] if door == "all" else []
    found = run(
        ROOT / "recipes/toy/run.sh", *more, "--work", tmp_path, env=warm.variables(), cwd="/"
    )
    by_name = {}
    for name in names:
        (folder,) = experiment.runs(f"{name}.treebank")
        by_name[name] = json.loads((folder / "result.json").read_text())
        assert " of 800, " in found.stdout and " left" in found.stdout
    if door == "first":
        assert by_name["full_tree"]["exact"]["ambiguous"] >= 0.6  # 0.67 to 0.86 for four seeds
        assert by_name["sequence"]["exact"]["ambiguous"] <= 0.5
        assert "any gain of full tree over this comes from trees" in found.stdout
    else:
        assert by_name["no_positions"]["exact"]["ambiguous"] <= 0.5
        assert by_name["depth"]["exact"]["of these ties"] <= 0.5
        assert "| sequence + depth | " in found.stdout
    for result in by_name.values():
        assert result["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:none")
        assert f"{result['parameters']:,}" in found.stdout
        assert result["train_words_per_second"] > 0 < result["generate_sentences_per_second"]


def test_exact_match_by_kind_of_sentence():
    exact_matches = script(ROOT / "recipes/toy/trial.py").exact_matches
    kinds = ["ambiguous", "tie", "tie", "unambiguous"]
    found = exact_matches(["a", "b", "x", "d"], ["a", "b", "c", "d"], kinds)
    assert found == {"ambiguous": 2 / 3, "of these ties": 1 / 2, "unambiguous": 1}


def test_candidates_of_a_benchmark_take_turns():
    from setting import in_turns, times_faster

    calls = []

    def candidate(name: str, seconds: float):
        def step(number: int) -> float:
            calls.append((number, name))
            return seconds * (number + 1)

        return step

    names = {"slow": 4.0, "middle": 2.0, "fast": 1.0}
    taken = in_turns({name: candidate(name, s) for name, s in names.items()}, 8)
    assert [number for number, _ in calls] == sorted(3 * list(range(8)))
    orders = {tuple(name for number, name in calls if number == k) for k in range(8)}
    assert len(orders) > 2 and all(sorted(order) == sorted(names) for order in orders)
    assert times_faster(taken["slow"], taken["fast"]) == (4.0, 4.0, 4.0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "models", "column"),
    [
        ("train_speed", ["window@0", "structural"], "words_per_second_ratio"),
        ("generate_speed", ["--int8", "--budget"], "sentences_per_second_ratio"),
    ],
)
def test_benchmarks_run_and_write_their_table(program, models, column, tmp_path):
    file = tmp_path / "rows.json"
    script = ROOT / f"recipes/benchmark/{program}.py"
    small = ["--size", "toy", "--sentences", "60", "--pairs", "3", "--vocabulary", "100"]
    options = [*models, *small, "--length", "8", "--json", file]
    printed = run(sys.executable, script, *options, cwd=os.getcwd()).stdout
    if program == "train_speed":  # three rounds, and the table, without the log of fairseq
        assert len(printed.splitlines()) == 3 + 1 + 2 + len(models), printed
    for row in json.loads(file.read_text()):
        assert row["low"] <= row[column] <= row["high"]


def test_benchmarks_take_presets():
    setting = script(ROOT / "recipes/benchmark/setting.py")
    structural = setting.Model("sequence + tree_depth", "relative + tree_relative")
    assert setting.Model.parse("structural") == structural
    assert setting.Model.parse("relative") == setting.Model("sequence", "relative")
    assert setting.Model.parse("none / alibi") == setting.Model("none", "alibi")


def test_a_program_is_stopped_at_the_time_limit():
    cells = script(ROOT / "recipes/benchmark/gpu_cells.py")
    assert cells.output_of(["echo", "a"]) == (0, "a\n")
    cells.limit = 0.0
    with pytest.raises(cells.TimeLimit):
        cells.output_of(["sleep", "600"])


@pytest.mark.long
def test_the_loss_is_measured(tmp_path):
    printed = run(ROOT / "recipes/benchmark/gpu.sh", tmp_path, "--part", "f", "--small").stdout
    assert printed.count("loss: ") == 3 and "## Part f" in printed
    assert (tmp_path / "gpu.md").read_text().count("loss: ") == 3


@pytest.mark.long
def test_how_attention_grows_with_the_length(tmp_path):
    table = tmp_path / "scaling.json"
    small = ["--lengths", 32, 256, "--tokens", 512, "--width", 32, "--heads", 4, "--rounds", 2]
    script = ROOT / "recipes/benchmark/attention_scaling.py"
    printed = run(sys.executable, script, *small, "--json", table).stdout
    rows = json.loads(table.read_text())
    assert len(rows) == 2 * 4 and all(row["attention"] in printed for row in rows)
    memory = {(row["attention"], row["length"]): row["peak_memory"] for row in rows}
    explicit, window = "full, single steps", "window(size=11)"
    # as many pieces in sentences of eight times the length: eight times the scores, as many windows
    assert memory[explicit, 256] > 5 * memory[explicit, 32]
    assert memory[window, 256] < 3 * memory[window, 32]


@pytest.mark.long
def test_checks_of_a_gpu_go_on_where_they_were(tmp_path):
    """Without a GPU they are tried with small sizes; a cell that a kill cut off is done again."""
    script = [ROOT / "recipes/benchmark/gpu.sh", tmp_path, "--part", "a", "--small"]
    late = run(*script, "--seconds", 0, check=False)
    assert late.returncode and "run the same command again" in late.stdout
    assert "Traceback" not in late.stdout
    run(*script)
    kept = (tmp_path / "a.jsonl").read_text()
    assert "FAILED" not in kept and kept.count("\n") == 13
    (tmp_path / "a.jsonl").write_text(kept[:-20])
    printed = run(*script).stdout
    assert "1 of 1" in printed and "0 failures" in printed
    table = (tmp_path / "gpu.md").read_text()
    assert "| train tree_supervised@1 |" in table and "| torchrun |" in table
    assert table.count("found: ok") == 29
    assert len(json.loads((tmp_path / "gpu.json").read_text())) == 13
