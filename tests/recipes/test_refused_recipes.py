"""What recipes refuse; each mistake ends with one line."""

import pytest

from support.experiments import in_process

TRANSLATION = "wmt14_en_de"
DRY = ("sequence", "--dry-run", "--")


@pytest.mark.parametrize(
    ("step", "recipe", "arguments", "message"),
    [
        ("train", "lookup", ["nothing"], "unknown model 'nothing'; choose among positional con"),
        ("train", "lookup", ["none", "--size", "base"], "--size does not apply to the recipe"),
        ("train", "lookup", ["none", "--corpora", "x"], "x is unknown or not prepared; choose am"),
        ("evaluate", "lookup", ["none", "--baseline", "none"], "lookup supports no --baseline"),
        ("evaluate", "lookup", ["--run", "x"], "runs/x: the folder contains no finished run"),
        ("evaluate", "lookup", ["none", "--on-valid"], "--on-valid does not apply to the recipe"),
        ("table", "lookup", ["--tokens", "9"], "--tokens does not apply to the recipe lookup"),
        ("table", "lookup", ["--baseline", "none"], "lookup supports no --baseline"),
        ("sweep", "lookup", [], "has no [sweep]; add one if"),
        ("prepare", "lookup", [], "it creates its own data; run"),
        ("train", "lm", ["lstm"], "no data; run posattn recipe prepare lm first"),
        ("prepare", "lm", ["--from", "."], "expected either ptb.train.txt or wiki.train.tokens"),
        ("prepare", "lm", ["--from", "nowhere"], "nowhere: there is no such folder"),
        ("prepare", "lm", [], "needs the folder of its corpus; give its path"),
        ("train", "lm", ["lstm", "--dry-run", "--processes", 3], "3 processes cannot share the 20"),
        ("train", "lm", ["lstm", "--dry-run", "--updates", 3], "counts epochs, not updates"),
        ("train", "lm", ["lstm", "--dry-run", "--", "--seed", 3], "--seed is set by the recipe"),
        ("prepare", "ud_tagging", ["--from", "."], "has 0 files with 'train' in their names, exp"),
        ("train", TRANSLATION, ["sequence"], "no data; run posattn recipe prepare wmt14"),
        ("train", TRANSLATION, ["sequence", "--nodes", 2], "--nodes requires --rendezvous HOST:P"),
        ("train", TRANSLATION, ["sequence", "--corpora", "x"], "--corpora does not apply to the"),
        ("train", TRANSLATION, [], "the following arguments are required: model"),
        ("train", TRANSLATION, ["sequence", "--seeds", "3-x"], "expected seeds such as 1-3 or 1,2"),
        ("train", TRANSLATION, [*DRY, "--seed", 5], "--seed is set by the recipe; use --seed"),
        ("train", TRANSLATION, [*DRY, "--max-update=3"], "--max-update=3 is set by the recipe"),
        ("evaluate", TRANSLATION, [], "specify one from the recipe, such as sequence directional"),
        ("evaluate", TRANSLATION, ["sequence"], "sequence.base.seed1: it was not trained; run"),
        ("evaluate", TRANSLATION, ["sequence", "--colour"], "unrecognized arguments: --colour"),
        ("evaluate", TRANSLATION, ["--run", "x", "--seeds", "1-2"], "selects a single run; leave"),
        ("table", TRANSLATION, ["--baseline", "x"], "unknown model 'x'; choose among sequence"),
        ("prepare", "nist_zh_en", [], "give its path with --from FOLDER"),
        ("prepare", TRANSLATION, ["--", "--control", "x"], "--control is set by the recipe; write"),
        ("prepare", TRANSLATION, ["--", "--out=x"], "--out=x is set by the recipe; give --work"),
    ],
)
def test_mistakes_are_named(step, recipe, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cpu = [] if step == "prepare" else ["--cpu"]
    code, _, err = in_process(step, recipe, "--work", tmp_path / "work", *cpu, *arguments)
    assert code in (1, 2) and message in err and "Traceback" not in err
    assert not (tmp_path / "work/runs").exists()
