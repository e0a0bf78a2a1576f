"""What recipes for other tasks than translation refuse; each ends with one line."""

import pytest

from support.experiments import in_process


@pytest.mark.parametrize(
    ("step", "recipe", "arguments", "message"),
    [
        ("train", "lookup", ["nothing"], "unknown model 'nothing'; choose among positional con"),
        ("train", "lookup", ["none", "--size", "base"], "the models of lookup have one size"),
        ("train", "lookup", ["none", "--corpora", "x"], "the unknown corpus x; choose among tab"),
        ("evaluate", "lookup", ["none", "--baseline", "x"], "only in recipes/table.sh; give --bas"),
        ("evaluate", "lookup", ["--run", "x"], "does not apply to lookup; select a run by MODEL"),
        ("evaluate", "lookup", ["none", "--on-valid"], "--on-valid, --keep and --from-study"),
        ("table", "lookup", ["--tokens", "9"], "--tokens 9 is set in the recipe.toml of lookup"),
        ("table", "lookup", ["--baseline", "none"], "lookup supports no --baseline"),
        ("sweep", "lookup", [], "the recipe has no [sweep]"),
        ("prepare", "lookup", [], "it makes its data itself; run"),
        ("prepare", "lookup", ["--models", "none"], "makes the same data for all models; leave"),
        ("train", "lm", ["lstm"], "no data; run recipes/prepare.sh lm first"),
        ("prepare", "lm", ["--from", "."], "not contain either ptb.train.txt or wiki.train.tok"),
        ("prepare", "lm", ["--from", "nowhere"], "nowhere: there is no such folder"),
        ("prepare", "lm", [], "needs the folder of its corpus; give its path"),
        ("train", "lm", ["lstm", "--dry-run", "--processes", 3], "3 processes cannot share the 20"),
        ("train", "lm", ["lstm", "--dry-run", "--updates", 3], "counts epochs, not updates"),
        ("train", "lm", ["lstm", "--dry-run", "--", "--seed", 3], "--seed is set by the recipe"),
        ("prepare", "ud_tagging", ["--from", "."], "has 0 files with 'train' in their names, exp"),
    ],
)
def test_mistakes_are_named(step, recipe, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cpu = [] if step == "prepare" else ["--cpu"]
    code, _, err = in_process(step, recipe, "--work", tmp_path / "work", *cpu, *arguments)
    assert code == 1 and message in err and "Traceback" not in err
    assert not (tmp_path / "work/runs").exists()
