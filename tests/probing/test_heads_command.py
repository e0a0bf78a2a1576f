"""posattn probe --heads on trained models, and its results in the tables and in the report."""

import json

import pytest

from fairseq_posattn.probing.results import read_probes
from support.probes import probe
from support.scored_systems import scored


@pytest.fixture(scope="module")
def outcome(world, tmp_path_factory):
    """Return what the command finds in a model that reads trees and in fairseq's own."""
    file = tmp_path_factory.mktemp("heads") / "heads.json"
    trees = [world.trees / "sentence_length.conllu"] * 3
    models = [f"{name}={world.models[name]}" for name in ("tree", "stock")]
    found = probe(
        *(world.data, "--path", *models, "--heads", *trees, "--gold", "--json", file, "--cpu"),
        *("--user-dir", "fairseq_posattn", "--fairseq-task", "structured_translation"),
    )
    assert found.code == 0, found.err
    return file, found


@pytest.mark.long(ci=True)
def test_what_is_found(outcome, world):
    file, found = outcome
    probes = read_probes(str(file))
    kinds = {(one.system, one.kind, one.trees) for one in probes.words}
    assert kinds == {
        ("tree", "trained", "gold"),
        ("tree", "untrained", "gold"),
        ("tree", "embeddings", "none"),
        ("stock", "trained", "none"),
        ("stock", "untrained", "none"),
        ("stock", "embeddings", "none"),
    }
    # The treebank has no parts of speech.
    assert {one.probe for one in probes.words} == {"distance", "depth", "relation"}
    assert "words have no parts of speech, so UPOS is not probed" in found.err
    assert "with punctuation, as no word has a UPOS" in found.out
    for one in probes.words:
        assert one.figures.get("spearman", 0) <= 1
        assert all(value <= 100 for value in one.figures.values())
    systems = {(one.system, one.kind) for one in probes.heads}
    assert len(systems) == 4
    layers = {one.layer for one in probes.heads}
    heads = {one.head for one in probes.heads}
    assert len(probes.heads) == len(systems) * len(layers) * len(heads)
    assert (
        probes.treebank.train
        == len((world.tasks / "sentence_length.txt").read_text().split("\n")) - 1
    )
    for one in probes.relations:
        assert len(one.of_heads) == len(layers) and len(one.of_heads[0]) == len(heads)
        assert one.of_heads[one.layer][one.head] == one.accuracy
    assert {(one.place, one.kind) for one in probes.offsets} == {
        (place, kind) for place in ("parent", "child") for kind in ("trained", "untrained")
    }
    for title in (
        "Probes of words",
        "What words attend to most",
        "Relations in heads, to the parent",
        "Relations in heads, to the child",
    ):
        assert f"{title}:" in found.out
    assert "| best offset |" in found.out


def test_offsets_of_several_files_are_runs_of_their_own(outcome, tmp_path):
    for name, share in (("a", 20.0), ("b", 40.0)):
        one = json.loads(outcome[0].read_text())
        for record in [
            record for kind in one.values() if isinstance(kind, list) for record in kind
        ]:
            record["model"] = record["model"] and name * 64  # another training of each system
        for offset in one["offsets"]:
            offset["share"] = share
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    found = probe("--results", tmp_path / "a.json", tmp_path / "b.json")
    assert found.code == 0, found.err
    rows = [line for line in found.out.splitlines() if line.startswith("| best offset |")]
    assert {share for share in ("20.0", "40.0") for row in rows if share in row} == {"20.0", "40.0"}


def test_results_of_other_treebanks_are_not_joined(outcome, world, tmp_path):
    file, _ = outcome
    trees = [world.trees / "sentence_length.conllu"] * 3
    other = probe(
        *(world.data, "--path", f"tree={world.models['again']}", "--heads", *trees, "--gold"),
        *("--json", tmp_path / "other.json", "--cpu", "--first", "20"),
    )
    assert other.code == 0, other.err
    joined = probe("--results", file, tmp_path / "other.json")
    assert joined.code == 1 and "the word probes differ in --first from those in" in joined.err


@pytest.mark.long(ci=True)
def test_the_report_shows_it(outcome, world, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from fairseq_posattn.cli import report

    file, _ = outcome
    system, page, tasks = tmp_path / "system.json", tmp_path / "report.html", tmp_path / "p.json"
    system.write_text(json.dumps(scored()))
    found = probe(
        *(world.data, "--path", world.models["tree"], "--tasks", world.tasks, "--task", "WC"),
        *("--trees", world.trees, "--classifier", "linear", "--json", tasks, "--cpu"),
    )
    assert found.code == 0, found.err
    words = ["posattn report", str(system), "--probes", str(tasks), str(file), "--out", str(page)]
    monkeypatch.setattr("sys.argv", words)
    report.main()
    text = page.read_text()
    assert '<section id="probes">' in text
    assert 'aria-label="Accuracy on test"' in text
    for title in (
        "Accuracy on test, in %",
        "Probes of words",
        "Largest weight on the parent",
        "stock, untrained, run 0",
    ):
        assert title in text


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--layer", "mix"], "--heads does not support --layer mix"),
        (["--tasks", "x"], "--heads cannot be combined with --tasks"),
        (["--layer", "9"], "--layer 9 does not exist; choose one of the layers 0 to 2"),
        ([], "posattn prepare did not parse these data with stanza; let the models read"),
    ],
)
def test_what_is_refused(more, message, world, tmp_path):
    trees = [world.trees / "sentence_length.conllu"] * 3
    gold = ["--gold"] if more else []
    found = probe(
        *(world.data, "--path", world.models["tree"], "--heads", *trees, *gold, *more),
        *("--json", tmp_path / "x.json", "--cpu"),
    )
    assert found.code == 1 and message in found.err and "Traceback" not in found.err
    assert not (tmp_path / "x.json").exists()


def test_a_treebank_without_trees_is_refused(world, tmp_path):
    empty = tmp_path / "empty.conllu"
    empty.write_text("1\tword" + "\t_" * 8 + "\n\n")
    trees = [empty, world.trees / "sentence_length.conllu", empty]
    found = probe(
        *(world.data, "--path", world.models["tree"], "--heads", *trees, "--gold"),
        *("--json", tmp_path / "x.json", "--cpu"),
    )
    assert found.code == 1 and f"{empty}: no sentence has a tree" in found.err
