"""posattn probe on real files: what it finds, keeps, joins, shows and refuses."""

import contextlib
import csv
import json
import re
import shutil
from dataclasses import replace
from statistics import mean, stdev
from unittest import mock

import numpy as np
import pytest
import torch

from fairseq_posattn.files.records import as_document
from fairseq_posattn.inspection.model import load
from fairseq_posattn.probing import encoding, words
from fairseq_posattn.probing.encoding import SentenceEncoder
from fairseq_posattn.probing.making.make import TasksRecord
from fairseq_posattn.probing.request import ProbeRequest, named
from fairseq_posattn.probing.results import (
    Accuracy,
    ProbedTask,
    Probes,
    WordProbe,
    packed_bits,
    read_probes,
)
from fairseq_posattn.probing.tables import Results, accuracies, interval, intervals
from fairseq_posattn.trees.conllu import read_conllu
from support import parse_toys
from support.commands import FULL_TREE, PLUGIN
from support.files import lines_of, write
from support.in_process import Ended, call, train
from support.probes import FILES, QUICK, SIZES, conllu, probe
from support.raw_corpus import LANGUAGES, Corpus


@pytest.fixture
def found(world, tmp_path):
    """Return a function that probes models of the small world, and returns file and outcome."""

    def found(*models, tasks=("SentLen",), name="probes", more=(), folder=None, trees=None):
        paths = [f"{m}={world.models[m]}" if isinstance(m, str) else "=".join(m) for m in models]
        json_file = tmp_path / f"{name}.json"
        outcome = probe(
            *(world.data, "--path", *paths, "--tasks", folder or world.tasks, "--task", *tasks),
            *("--trees", trees or world.trees, "--classifier", "linear", "--cpu"),
            *("--json", json_file, *more),
        )
        return json_file, outcome

    return found


def read(answer) -> Probes:
    """Return the record that a run wrote."""
    path, outcome = answer
    assert outcome.code == 0, outcome.err
    return read_probes(str(path))


def refused(outcome: Ended) -> str:
    """Return the line that says what was wrong; it is one line, foreseen, without a traceback."""
    assert outcome.code == 1, outcome
    *before, last = outcome.err.rstrip("\n").split("\n")
    assert last.startswith("error: ") and "unexpected" not in last, last
    assert "Traceback" not in outcome.err and not any(x.startswith("error") for x in before)
    return last


def by_kind(probes: Probes, **wanted) -> list[Accuracy]:
    return [
        one
        for one in probes.accuracies
        if all(getattr(one, key) == value for key, value in wanted.items())
    ]


def labels_of(path, split):
    rows = [line.split("\t") for line in lines_of(path)]
    return [row[1] for row in rows if row[0] == split]


# accuracies


@pytest.mark.long(ci=True)
def test_all_kinds_of_figures(world, found):
    """Two runs of a system, two seeds, and three tasks."""
    names = ["SentLen", "WC", "TreeDepth"]
    models = [("shan", str(world.models[m])) for m in ("tree", "again")]
    answer = found(*models, tasks=names, more=("--seeds", "1", "2"))
    probes = read(answer)
    assert (probes.classifier, probes.pooling) == ("linear", "mean")
    assert list(probes.tasks) == names
    for name in names:
        task, path = probes.tasks[name], world.tasks / f"{FILES[name]}.txt"
        assert (task.train, task.dev, task.test) == tuple(SIZES.values())
        train_labels, test_labels = labels_of(path, "tr"), labels_of(path, "te")
        assert task.classes == len(set(train_labels)) and task.source == "made"
        counts = {label: train_labels.count(label) for label in sorted(set(train_labels))}
        most = max(counts, key=counts.get)
        assert task.majority == pytest.approx(100 * test_labels.count(most) / len(test_labels))
        for kind, trees in (("trained", "given"), ("untrained", "given"), ("embeddings", "none")):
            rows = by_kind(probes, task=name, kind=kind)
            assert [(one.run, one.seed) for one in rows] == [(0, 1), (0, 2), (1, 1), (1, 2)]
            assert {(one.system, one.trees, one.setting) for one in rows} == {
                ("shan", trees, "linear")
            }
            for one in rows:
                assert one.test == pytest.approx(100 * one.hits(task.test).mean())
                assert (one.test * 14 / 100) == pytest.approx(round(one.test * 14 / 100))
                assert (one.dev * 12 / 100) == pytest.approx(round(one.dev * 12 / 100))
    assert len(probes.accuracies) == 3 * 3 * 4
    shown = table_rows(answer[1].out)
    assert [shown["majority"][name] for name in names] == [
        f"{probes.tasks[name].majority:.2f}" for name in names
    ]
    for row, kind in (("shan", "trained"), ("shan, untrained", "untrained")):
        of_runs = {
            name: [
                mean(one.test for one in by_kind(probes, task=name, kind=kind, run=run))
                for run in (0, 1)
            ]
            for name in names
        }
        of_runs["surface"] = [
            mean(pair) for pair in zip(of_runs["SentLen"], of_runs["WC"], strict=True)
        ]
        of_runs["syntax"] = of_runs["TreeDepth"]
        for name, runs in of_runs.items():
            assert shown[row][name] == f"{mean(runs):.2f} ± {stdev(runs):.2f}"
    after = answer[1].out.split("Accuracy on dev, in %:")[1]
    on_dev = [
        mean(one.dev for one in by_kind(probes, task="SentLen", kind="trained", run=run))
        for run in (0, 1)
    ]
    row = next(line for line in after.split("\n") if line.startswith("| shan |"))
    assert f"{mean(on_dev):.2f} ± {stdev(on_dev):.2f}" in row


def table_rows(text):
    """Return the cells of the first table in Markdown, by rows and columns."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.split("\n\n")[1].split("\n")
    ]
    assert rows[0][0] == "Vectors"
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def vector_files(folder):
    """Return the vectors that a run kept, by what it says of them."""
    found = {}
    for path in sorted(folder.rglob("*.npy")):
        about = json.loads(path.with_suffix(".json").read_text())["key"]
        found[about["task"], about["kind"]] = np.load(path)
    return found


def test_untrained_is_the_model_before_its_training(found, tmp_path):
    """A model that was trained without any step is its own untrained twin."""
    probes = read(found("still", more=("--seeds", "3")))
    kept = vector_files(tmp_path)
    np.testing.assert_array_equal(kept["SentLen", "trained"], kept["SentLen", "untrained"])
    before, after = (by_kind(probes, kind=kind)[0] for kind in ("untrained", "trained"))
    assert (before.test, before.dev, before.correct) == (after.test, after.dev, after.correct)
    assert before.seed == 3


def test_trees_change_the_vectors_of_a_model_that_reads_them(world, found, tmp_path):
    flat = tmp_path / "flat"
    for path in world.trees.iterdir():
        blocks = [
            conllu(tree.words, [0, *[1] * (len(tree.words) - 1)]) for tree in read_conllu(path)
        ]
        write(flat / path.name, "".join(blocks))
    kept = []
    for number, trees in enumerate((world.trees, flat)):
        work = tmp_path / f"work{number}"
        read(found("tree", name=str(number), trees=trees, more=("--work", work)))
        kept.append(vector_files(work))
    for kind in ("trained", "untrained"):
        one, other = (of_run["SentLen", kind] for of_run in kept)
        assert np.abs(one[:, 2] - other[:, 2]).max() > 1e-3
        np.testing.assert_allclose(one[:, 3], other[:, 3], atol=1e-6)  # embeddings


def test_a_stock_transformer_needs_no_trees(world, tmp_path):
    arguments = (world.data, "--path", f"base={world.models['stock']}", "--tasks", world.tasks)
    outcome = probe(*arguments, "--classifier", "linear", "--cpu", "--json", tmp_path / "p.json")
    probes = read((tmp_path / "p.json", outcome))
    assert list(probes.tasks) == ["SentLen", "WC", "TreeDepth", "BShift"]  # all of the folder
    assert {one.trees for one in probes.accuracies} == {"none"}
    assert len(by_kind(probes, kind="trained")) == 4
    assert "†" not in outcome.out


@pytest.mark.long(ci=True)
def test_layers(found):
    every = read(found("tree", name="all", more=("--layer", "all")))
    assert [one.layer for one in by_kind(every, kind="trained")] == ["0", "1", "2"]
    assert [one.layer for one in by_kind(every, kind="embeddings")] == ["0"]
    top = read(found("tree", name="top"))
    assert [one.layer for one in by_kind(top, kind="trained")] == ["top"]
    assert by_kind(top, kind="trained")[0].correct == by_kind(every, layer="2")[0].correct
    for layer in ("0", "1"):
        one = read(found("tree", name=layer, more=("--layer", layer)))
        (own,) = by_kind(one, kind="trained")
        assert own.layer == layer
        assert own.correct == by_kind(every, kind="trained", layer=layer)[0].correct
    mix = read(found("tree", name="mix", more=("--layer", "mix")))
    assert [one.layer for one in by_kind(mix, kind="untrained")] == ["mix"]


def test_wc_has_never_a_hidden_layer(found, monkeypatch):
    """The grid is made smaller, because it takes long."""
    from fairseq_posattn.probing import classifiers

    grids = {**classifiers.GRIDS, "mlp": classifiers.GRIDS["mlp"][:1]}
    monkeypatch.setattr(classifiers, "GRIDS", grids)
    more = ("--classifier", "mlp", "--no-untrained")
    probes = read(found("tree", tasks=("SentLen", "WC"), more=more))
    assert {one.setting for one in by_kind(probes, task="SentLen")} == {
        "50 hidden units, dropout 0"
    }
    for one in by_kind(probes, task="WC"):
        assert one.setting.startswith("linear, weight decay")
    assert {one.kind for one in probes.accuracies} == {"trained", "embeddings"}  # as asked for


# vectors of another toolkit


def text_vectors(folder, rows, task="sentence_length"):
    lines = [" ".join(map(repr, map(float, row))) for row in rows]
    write(folder / f"{task}.txt", lines)
    return folder


def of_text(world, tmp_path, folder, *more):
    outcome = probe(
        *("--vectors", f"theirs={folder}", "--tasks", world.tasks, "--task", "SentLen"),
        *("--classifier", "linear", "--json", tmp_path / "text.json", *more),
    )
    return tmp_path / "text.json", outcome


def test_vectors_with_the_label_by_construction(world, tmp_path):
    labels = [line.split("\t")[1] for line in lines_of(world.tasks / "sentence_length.txt")]
    folder = text_vectors(tmp_path / "v", [[20 * (x == "0"), 20 * (x == "1"), 1] for x in labels])
    answer = of_text(world, tmp_path, folder)
    (one,) = read(answer).accuracies
    assert (one.test, one.dev) == (100, 100)
    assert (one.system, one.kind, one.trees, one.layer) == ("theirs", "vectors", "none", "top")
    assert table_rows(answer[1].out)["theirs"]["SentLen"] == "100.00"


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda lines: lines[:-1], ["65 vectors for 66 sentences"]),
        (lambda lines: ["66 2", *lines], [":2:", "expected 2"]),  # as word2vec begins a file
        (lambda lines: [*lines[:3], "1.0 dog 2.0", *lines[4:]], [":4:", "numbers only"]),
        (lambda lines: [*lines[:3], "1.0 2.0", *lines[4:]], [":4:", "2 number", "expected 3"]),
        (lambda lines: [*lines[:3], "1 nan 2", *lines[4:]], [":4:", "finite"]),
    ],
)
def test_faulty_vectors(change, expected, world, tmp_path):
    path = write(tmp_path / "v/sentence_length.txt", change(["0.5 1.5 -1e-3"] * 66))
    message = refused(of_text(world, tmp_path, tmp_path / "v")[1])
    for part in (str(path), *expected):
        assert part in message
    path.unlink()
    message = refused(of_text(world, tmp_path, tmp_path / "v")[1])
    assert f"{path}: the file with vectors" in message


# several files, and tables


def test_results_are_joined(world, found):
    one, other = found("tree", name="one"), found("stock", name="other")
    outcome = probe("--results", one[0], other[0])
    assert outcome.code == 0 and "stock, above untrained" in outcome.out
    rows = table_rows(outcome.out)
    assert set(rows) == {
        *("majority", "tree", "tree, embeddings", "tree, untrained"),
        *("stock", "stock, embeddings", "stock, untrained"),
    }
    assert rows["tree"]["Trees"] == "given" and rows["stock"]["Trees"] == "none"
    for path, name in ((one[0], "tree"), (other[0], "stock")):
        (own,) = by_kind(read_probes(str(path)), kind="trained")
        assert rows[name]["SentLen"] == f"{own.test:.2f}"
    together = found("stock", name="both", more=("--results", one[0]))
    assert table_rows(together[1].out) == rows
    assert [a.system for a in by_kind(read(together), kind="trained")] == ["stock"]


def test_results_of_another_kind_are_refused(found):
    one, other = found("stock", name="one"), found("stock", name="other", more=("--pooling", "max"))
    message = refused(probe("--results", one[0], other[0]))
    assert f"{other[0]}: the pooling is max" in message and str(one[0]) in message
    assert "probe both models with the same options" in message


@pytest.mark.parametrize(
    "change",
    [lambda lines: lines[2:], lambda lines: [f"{line} tse" for line in lines]],
    ids=["of another size", "of another seed"],
)
def test_results_of_other_sentences_are_refused(change, world, found, tmp_path):
    lines = lines_of(world.tasks / "sentence_length.txt")
    write(tmp_path / "other/sentence_length.txt", change(lines))
    one = found("stock", name="one")
    other = found("stock", name="other", folder=tmp_path / "other")
    message = refused(probe("--results", one[0], other[0]))
    assert f"{other[0]}: the sentences of SentLen differ from those in" in message


def test_runs_of_a_system_in_several_files_are_runs(world, found):
    paths = {model: ("shan", str(world.models[model])) for model in ("tree", "again")}
    outcome = probe("--results", *(found(path, name=name)[0] for name, path in paths.items()))
    assert outcome.code == 0 and "±" in table_rows(outcome.out)["shan"]["SentLen"]


def csv_rows(path):
    """Return the cells of the table of accuracies in CSV, by rows and columns."""
    rows = [row for row in csv.reader(path.open()) if row[0] != "table"]
    heads = next(csv.reader(path.open()))
    of_table = [row for row in rows if row[0].startswith("Accuracy on test")]
    return {row[1]: dict(zip(heads, row, strict=True)) for row in of_table}


def test_tables_are_written(world, found, tmp_path):
    paths = [("shan", str(world.models[model])) for model in ("tree", "again")]
    answer = found(*paths, tasks=("SentLen", "BShift"), more=("--table", tmp_path / "table"))
    read(answer)
    markdown = (tmp_path / "table.md").read_text()
    assert markdown == answer[1].out
    assert "Classifier: linear" in markdown and "mean over the pieces" in markdown
    assert "40, 12, 14" in markdown and "so no figure is comparable" in markdown
    shown, of_csv = table_rows(markdown), csv_rows(tmp_path / "table.csv")
    assert shown.keys() == of_csv.keys()
    for row, by_column in shown.items():
        for name in ("SentLen", "BShift", "surface", "syntax"):
            deviation = of_csv[row].get(f"{name} deviation")
            own = of_csv[row][name] + (f" ± {deviation}" if deviation else "")
            assert own == by_column[name].replace("–", "")
    latex = (tmp_path / "table.tex").read_text()
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 3
    assert shown["majority"]["SentLen"] in latex and "±" in shown["shan"]["SentLen"]


# what is kept


@pytest.fixture
def encoded(monkeypatch):
    """Return a list that gets the number of sentences of each batch that is encoded."""
    found, run = [], SentenceEncoder.run

    def counted(self, sample):
        found.append(len(sample["id"]))
        return run(self, sample)

    monkeypatch.setattr(SentenceEncoder, "run", counted)
    return found


class Killed(BaseException):
    """This stands for a kill: nothing catches it."""


@contextlib.contextmanager
def killed_after(batches):
    """Kill the run when it encodes another batch after so many."""
    run, done = SentenceEncoder.run, []

    def run_or_die(self, sample):
        if len(done) == batches:
            raise Killed
        done.append(1)
        return run(self, sample)

    with mock.patch.object(SentenceEncoder, "run", run_or_die), pytest.raises(Killed):
        yield


@pytest.mark.parametrize(
    "pieces_of_batch, batches, done",
    [
        (8000, 0, 0),  # nothing is encoded yet
        (8000, 3, 60),  # before the last chunk
        (60, 7, 20),  # within the second chunk
    ],
)
@pytest.mark.parametrize("model", ["tree", "stock"])
def test_a_killed_run_goes_on(
    model, pieces_of_batch, batches, done, found, encoded, tmp_path, monkeypatch
):
    monkeypatch.setattr(words, "CHUNK", 20)
    monkeypatch.setattr(encoding, "TOKENS", pieces_of_batch)
    more = ("--no-untrained", "--work")
    whole = read(found(model, name="whole", more=(*more, tmp_path / "whole")))
    assert sum(encoded) == 66
    with killed_after(batches):
        found(model, name="cut", more=(*more, tmp_path / "cut"))
    assert not list((tmp_path / "cut").rglob("*.npy"))
    encoded.clear()
    again = read(found(model, name="cut", more=(*more, tmp_path / "cut")))
    assert sum(encoded) == 66 - done
    kept = [vector_files(tmp_path / name) for name in ("whole", "cut")]
    np.testing.assert_array_equal(*(of_run["SentLen", "trained"] for of_run in kept))
    assert again == whole
    encoded.clear()
    assert read(found(model, name="cut", more=(*more, tmp_path / "cut"))) == whole
    assert not encoded


def test_a_kill_after_the_vectors_were_deleted(found, encoded, tmp_path, monkeypatch):
    monkeypatch.setattr(words, "CHUNK", 20)
    monkeypatch.setattr(encoding, "TOKENS", 60)
    work = tmp_path / "work"
    more = ("--no-untrained", "--work", work)
    read(found("stock", more=more))
    expected = vector_files(work)["SentLen", "trained"]
    (path,) = work.rglob("*.npy")
    path.unlink()
    with killed_after(1):
        found("stock", more=more)
    read(found("stock", more=more))
    np.testing.assert_array_equal(vector_files(work)["SentLen", "trained"], expected)


@pytest.mark.long(ci=True)
def test_vectors_are_used_again(found, encoded, tmp_path):
    """The classifier, its seeds, the layers and the results that are shown do not matter."""
    work = ("--work", tmp_path / "work")
    first = read(found("tree", more=work))
    assert sum(encoded) == 2 * 66
    encoded.clear()
    assert read(found("tree", more=work)) == first
    others = ("--seeds", "4", "5", "--layer", "all", "--classifier", "senteval")
    read(found("tree", name="others", more=(*work, *others)))
    assert not encoded
    read(found("tree", tasks=("SentLen", "WC"), more=work))
    assert sum(encoded) == 2 * 66  # those of WC


@pytest.mark.long(ci=True)
def test_vectors_are_made_anew_if_what_they_depend_on_changes(world, found, encoded, tmp_path):
    """A file of the same name may have another content."""
    tasks, trees = tmp_path / "tasks", tmp_path / "trees"
    model = tmp_path / "model/checkpoint.pt"
    shutil.copytree(world.tasks, tasks)
    shutil.copytree(world.trees, trees)
    model.parent.mkdir()
    shutil.copy(world.models["tree"], model)

    def kept(*more):
        """Return how many sentences are encoded, and the results."""
        encoded.clear()
        work = ("--no-untrained", "--work", tmp_path / "work", *more)
        probes = read(found(("m", str(model)), folder=tasks, trees=trees, more=work))
        return sum(encoded), probes

    assert kept()[0] == 66
    lines = lines_of(tasks / "sentence_length.txt")
    blocks = (trees / "sentence_length.conllu").read_text().strip("\n").split("\n\n")
    order = [1, 0, *range(2, len(lines))]
    write(tasks / "sentence_length.txt", [lines[k] for k in order])
    write(trees / "sentence_length.conllu", "".join(f"{blocks[k]}\n\n" for k in order))
    assert kept()[0] == 66
    flat = [
        conllu(tree.words, [0, *[1] * (len(tree.words) - 1)])
        for tree in read_conllu(trees / "sentence_length.conllu")
    ]
    write(trees / "sentence_length.conllu", "".join(flat))
    assert kept()[0] == 66
    shutil.copy(world.models["again"], model)
    assert kept()[0] == 66
    count, probes = kept("--pooling", "last")
    shutil.rmtree(tmp_path / "work")
    assert (count, kept("--pooling", "last")[1]) == (66, probes)  # as without older vectors


# raw text, prepared as the data were


def task_of_texts(folder, texts):
    """Write a task of these texts, half of which train."""
    splits = ["tr"] * (len(texts) // 2) + ["va", "te"] * (len(texts) // 4)
    rows = zip(splits, texts, strict=True)
    write(folder / "past_present.txt", [f"{s}\t{k % 2}\t{t}" for k, (s, t) in enumerate(rows)])
    return folder


def of_binarised_data(data, checkpoint):
    """Return the top layer's means for the binarised test sentences, by plain loops."""
    loaded = load(checkpoint, str(data), cpu=True)
    encoder = SentenceEncoder(loaded, str(data))
    loaded.task.load_dataset("test")
    dataset = loaded.task.dataset("test")
    found = []
    for number in range(len(dataset)):
        sample = dataset.collater([dataset[number]])
        with torch.no_grad():
            top = encoder.run(sample).layers[-1][0]
        found.append(top[:-1].mean(dim=0).numpy())  # without the end of the sentence
    return np.array(found)


def same_as_binarised(corpus, data, checkpoint, folder, kind):
    """Probe the raw text, and compare its vectors with those of the binarised data.

    A no-break space is left out: the files of tasks have a plain space between any two words.
    """
    texts = lines_of(corpus.folder / "raw/test.de")
    tasks = task_of_texts(folder / "tasks", texts)
    kept = [k for k, text in enumerate(texts) if "\u00a0?" not in text]
    assert len(kept) > 15
    expected = of_binarised_data(data, checkpoint)[kept]
    outcome = probe(
        *(data, "--path", f"shan={checkpoint}", "--tasks", tasks, "--classifier", "linear"),
        *("--json", folder / "p.json", "--cpu"),
    )
    probes = read((folder / "p.json", outcome))
    assert {one.trees for one in by_kind(probes, kind="trained")} == {kind}
    assert {one.trees for one in by_kind(probes, kind="untrained")} == {kind}
    found = {kind: of_kind[kept, 2] for (_, kind), of_kind in vector_files(folder).items()}
    np.testing.assert_allclose(found["trained"], expected, rtol=1e-4, atol=1e-5)
    assert np.abs(found["untrained"] - expected).max() > 0.01


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("kind", ["chain", "no trees"])
def test_raw_text_is_prepared_as_the_data_were(kind, tmp_path):
    """Without a parser: the control makes the trees, or the model reads none."""
    corpus = Corpus(tmp_path / "corpus", tmp_path / "no models of stanza")
    data = corpus.data(kind)
    model = FULL_TREE if kind == "chain" else ()
    train(data, tmp_path / "run", *LANGUAGES, *model, *QUICK)
    checkpoint = tmp_path / "run/checkpoint_last.pt"
    shown = "control chain" if kind == "chain" else "none"
    same_as_binarised(corpus, data, checkpoint, tmp_path, shown)


@pytest.mark.long
def test_raw_text_is_parsed_as_the_data_were(corpus, tmp_path, monkeypatch):
    """The trees of the model and the words of the pieces are stanza's."""
    from fairseq_posattn.probing import probe as module

    asked = []

    def parse_once(request):
        asked.append(request.text)
        parse_toys.parse_here(request.text, request.out, request.settings)

    monkeypatch.setattr(module, "parse", parse_once)
    data = corpus.data("stanza")
    train(data, tmp_path / "run", *LANGUAGES, *FULL_TREE, *QUICK)
    checkpoint = tmp_path / "run/checkpoint_last.pt"
    same_as_binarised(corpus, data, checkpoint, tmp_path, "parsed")
    assert asked


# gold trees


def made_tasks(world, folder, kind):
    """Write the tasks as posattn probe-tasks makes them of gold or of parsed trees."""
    shutil.copytree(world.tasks, folder)
    shutil.copytree(world.trees, folder / "trees")
    (folder / "trees/bigram_shift.conllu").unlink()  # they would be parsed
    about = TasksRecord(
        version="1", trees=kind, settings={}, corpora=[], left_out={}, tasks={}, refused={}
    )
    (folder / "tasks.json").write_text(json.dumps(as_document(about)))
    return folder


@pytest.mark.parametrize("kind", ["gold", "parsed"])
def test_gold_trees_are_marked(kind, world, found, tmp_path):
    folder = made_tasks(world, tmp_path / "made", kind)
    names = ("SentLen", "TreeDepth")
    answer = found("tree", tasks=names, folder=folder, trees=folder / "trees")
    probes = read(answer)
    assert {one.trees for one in by_kind(probes, kind="trained")} == {kind}
    assert {one.trees for one in by_kind(probes, kind="untrained")} == {kind}
    assert {one.trees for one in by_kind(probes, kind="embeddings")} == {"none"}
    row = table_rows(answer[1].out)["tree"]
    assert ("TreeDepth †" in row) == (kind == "gold")
    assert "SentLen" in row and row["Trees"] == kind
    stock = found("stock", tasks=names, folder=folder, name="stock")  # it reads no trees
    read(stock)
    assert "†" not in stock[1].out


def test_trees_from_elsewhere_or_of_changed_sentences_are_not_gold(world, found, tmp_path):
    """Trees may be those of a parser, and nobody drew trees of sentences with swapped words."""
    folder = made_tasks(world, tmp_path / "made", "gold")
    shutil.copy(world.trees / "bigram_shift.conllu", folder / "trees")
    shutil.copytree(folder / "trees", tmp_path / "elsewhere")
    for task, trees, kind in (
        ("TreeDepth", tmp_path / "elsewhere", "given"),
        ("BShift", folder / "trees", "parsed"),
    ):
        probes = read(found("tree", tasks=(task,), folder=folder, trees=trees))
        assert by_kind(probes, kind="trained")[0].trees == kind


# what is refused


def arguments(world, tmp_path, **other):
    """Return the arguments of a good run, some of which are others."""
    options = {
        "data": world.data,
        "path": f"tree={world.models['tree']}",
        "tasks": world.tasks,
        "task": "SentLen",
        "trees": world.trees,
        "json": tmp_path / "p.json",
        "classifier": "linear",
        **other,
    }
    data = options.pop("data")
    words = [x for name, value in options.items() if value for x in (f"--{name}", value)]
    return [*([data] if data else []), *words, "--cpu"]


@pytest.mark.parametrize(
    "other, expected",
    [
        ({"path": "a=nowhere/a.pt"}, "nowhere/a.pt: there is no such checkpoint"),
        ({"path": "=a.pt"}, "write NAME=PATH"),
        ({"data": "nowhere"}, "nowhere: there is no such folder"),
        ({"tasks": "nowhere"}, "nowhere is not a folder"),
        ({"tasks": None}, "and --tasks or --heads"),
        ({"json": None}, "--json FILE"),
        ({"path": None}, "--path"),
        ({"task": "Tense"}, "contains no past_present.txt for Tense"),
        ({"task": "Nonsense"}, "choose one of"),
        ({"trees": "nowhere"}, "nowhere/sentence_length.conllu: there are no trees for SentLen"),
        ({"trees": None}, "--trees"),
        ({"layer": "3"}, "--layer 3 does not exist; choose one of the layers 0 to 2"),
        ({"results": "nowhere.json"}, "nowhere.json"),
    ],
    ids=lambda x: str(x) if isinstance(x, dict) else "",
)
def test_what_is_refused(other, expected, world, tmp_path):
    assert expected in refused(probe(*arguments(world, tmp_path, **other)))
    assert not list(tmp_path.rglob("*.npy"))  # before any sentence is encoded


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda x: [*x[:-1], "te\tnew\tla numizo"], [":66:", "'new'"]),
        (lambda x: [*x[:45], "va\tnew\tla numizo", *x[46:]], [":46:", "'new'"]),
        (lambda x: [line for line in x if not line.startswith("va")], ["va"]),
    ],
    ids=["label of test", "label of dev", "no dev"],
)
def test_faulty_tasks(change, expected, world, tmp_path):
    own = lines_of(world.tasks / "sentence_length.txt")
    path = write(tmp_path / "tasks/sentence_length.txt", change(own))
    other = {"path": f"a={world.models['stock']}", "trees": None, "tasks": path.parent}
    message = refused(probe(*arguments(world, tmp_path, **other)))
    for part in (str(path), *expected):
        assert part in message


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda blocks: blocks[:-1], ["has 65 trees for 66 sentences", "parse"]),
        (lambda blocks: [*blocks[1::-1], *blocks[2:]], ["do not match"]),
    ],
    ids=["number", "sentences"],
)
def test_trees_that_are_not_those_of_the_task(change, expected, world, tmp_path):
    blocks = (world.trees / "sentence_length.conllu").read_text().strip("\n").split("\n\n")
    path = write(tmp_path / "t/sentence_length.conllu", "\n\n".join([*change(blocks), ""]))
    message = refused(probe(*arguments(world, tmp_path, trees=path.parent)))
    for part in (str(path), *expected):
        assert part in message


def test_a_sentence_that_is_too_long(world, tmp_path):
    lines = [*lines_of(world.tasks / "sentence_length.txt"), f"te\t0\t{' '.join(['la'] * 1200)}"]
    write(tmp_path / "tasks/sentence_length.txt", lines)
    other = {"path": f"a={world.models['stock']}", "trees": None, "tasks": tmp_path / "tasks"}
    message = refused(probe(*arguments(world, tmp_path, **other)))
    assert "la la la" in message and "1024" in message and "remove" in message


def test_a_language_model_has_no_encoder(world, toy_data, tmp_path):
    texts = ["--trainpref", toy_data.parent / "raw/dev.tgt"]
    call("preprocess", "--only-source", *texts, "--destdir", tmp_path / "lm")
    call(
        *("train", tmp_path / "lm", "--user-dir", PLUGIN, "--task", "language_modeling"),
        *("--arch", "transformer_lm", "--decoder-layers", "1", "--decoder-embed-dim", "16"),
        *("--decoder-attention-heads", "2", "--decoder-ffn-embed-dim", "16", "--cpu"),
        *("--tokens-per-sample", "40", "--max-tokens", "400", "--optimizer", "adam"),
        *("--sample-break-mode", "eos", "--num-workers", "0", *QUICK, "--max-update", "1"),
        *("--save-dir", tmp_path / "run"),
    )
    path = f"lm={tmp_path / 'run/checkpoint_last.pt'}"
    message = refused(probe(*arguments(world, tmp_path, data=tmp_path / "lm", path=path)))
    assert "has no text encoder; choose a model with one" in message


# fabricated records


def accuracy(hits, system="base", run=0, kind="trained", task="SentLen", trees="none", seed=1):
    hits = np.asarray(hits, dtype=bool)
    return Accuracy(
        system=system,
        run=run,
        model="",
        kind=kind,
        task=task,
        layer="top",
        seed=seed,
        trees=trees,
        setting="linear",
        dev=50.0,
        test=100 * float(hits.mean()),
        correct=packed_bits(hits),
    )


def probed(test=8, source="made", majority=25.0):
    sizes = {"train": 100, "dev": 10, "test": test, "classes": 6}
    return ProbedTask(**sizes, majority=majority, sha256="", source=source)


def record(tasks, *of_tasks):
    return Probes(
        version="1", classifier="linear", pooling="mean", tasks=tasks, accuracies=[*of_tasks]
    )


def cells(*records):
    """Return the cells of the table of accuracies, by rows and columns, as text."""
    table = accuracies(Results(records, [f"{k}.json" for k in range(len(records))]))
    return {
        str(row[0]): dict(zip(table.head, map(str, row), strict=True)) for row in table.rows
    }, table


ALL_TASKS = [
    *("SentLen", "WC", "TreeDepth", "TopConst", "BShift"),
    *("Tense", "SubjNum", "ObjNum", "SOMO", "CoordInv"),
]
TABLE_3 = {  # shared/probing.md: the ten tasks, and the three averages
    "Base": "92.20 63.00 44.74 79.02 71.24 89.24 84.69 84.53 52.13 62.47 77.60 65.00 74.61",
    "+ relative": "89.82 63.17 45.09 78.45 71.40 88.74 87.00 85.53 51.68 62.21 76.50 64.98 75.03",
    "+ structural": "89.54 62.90 46.12 79.12 72.36 89.30 85.47 84.94 52.90 62.99 76.22 65.87 75.12",
}


def test_published_figures_are_those_of_the_paper():
    tasks = {name: probed(source="SentEval") for name in ALL_TASKS}
    shown, _ = cells(record(tasks, *(accuracy([1, 0] * 4, task=name) for name in ALL_TASKS)))
    for system, row in TABLE_3.items():
        columns = [*ALL_TASKS, "surface", "syntax", "semantics"]
        for column, figure in zip(columns, row.split(), strict=True):
            assert float(shown[f"published: {system}"][column]) == pytest.approx(
                float(figure), abs=0.0101
            )
    assert shown["base"]["syntax"] == "50.00"


def test_published_figures_stand_beside_files_of_senteval_only():
    tasks = {"SentLen": probed(source="SentEval"), "WC": probed(), "BShift": probed()}
    of_tasks = [accuracy([1] * 8, task=name) for name in tasks]
    shown, table = cells(record(tasks, *of_tasks))
    published = shown["published: Base"]
    assert published["SentLen"] == "92.20"
    assert published["WC"] == published["BShift"] == published["surface"] == "–"
    assert any("so no figure is comparable" in note for note in table.notes)
    made = {"SentLen": probed()}
    assert not any("published" in name for name in cells(record(made, accuracy([1] * 8)))[0])
    theirs = record({"SentLen": probed(source="SentEval")}, accuracy([1] * 8))
    assert not any("so no figure is comparable" in note for note in cells(theirs)[1].notes)


WHOLE = (100_000, 10_000, 10_000)


@pytest.mark.parametrize(
    "sizes, made, file, labels, source",
    [
        (WHOLE, False, "sentence_length", "012345", "SentEval"),
        ((99_995, 9_996, 10_000), False, "sentence_length", "012345", "SentEval"),  # a few lack
        (WHOLE, True, "sentence_length", "012345", "made"),
        ((100_000, 10_000, 5_000), False, "sentence_length", "012345", "made"),
        (WHOLE, False, "sentence_length", "0123", "made"),
        (WHOLE, False, "subj_number", ["NN", "NNS"], "SentEval"),
        (WHOLE, False, "subj_number", ["one", "two"], "made"),
    ],
)
def test_how_files_of_senteval_are_known(sizes, made, file, labels, source, tmp_path, monkeypatch):
    from fairseq_posattn.probing import task_probing as module
    from fairseq_posattn.probing.tasks import SPLITS, Example

    write(tmp_path / f"{file}.txt", ["tr\t0\ta"])
    if made:
        write(tmp_path / "tasks.json", "{}")
    parts = [
        [Example(s, labels[k % len(labels)], ["a"]) for k in range(n)]
        for s, n in zip(SPLITS, sizes, strict=True)
    ]
    monkeypatch.setattr(module, "read_examples", lambda path: [e for p in parts for e in p])
    probing = module.TaskProbing(ProbeRequest(data=None, tasks=tmp_path))
    assert [task.described.source for task in probing.labelled()] == [source]


def test_the_deviation_of_one_run_is_over_its_seeds():
    halves = [accuracy([1, 0] * 4, seed=1), accuracy([1, 1, 1, 0] * 2, seed=2)]
    shown, _ = cells(record({"SentLen": probed()}, *halves))
    assert shown["base"]["SentLen"] == f"62.50 ± {stdev([50, 75]):.2f}"


# intervals


def test_the_interval_of_a_few_runs_is_that_of_student():
    """All sentences of a run are alike, so only the runs differ; there is no accuracy above 1."""
    hits = np.repeat(np.array([[0.5], [0.52], [0.54]]), 50, axis=1)
    away = 4.302653 * 2 / 3**0.5  # t of two degrees of freedom; in %
    assert interval(hits) == f"{52 - away:.2f} to {52 + away:.2f}"
    assert interval(np.array([[0.0] * 50, [1.0] * 50])) == "0.00 to 100.00"
    assert interval(hits[:1]) == "50.00 to 50.00" and interval(np.array([])) == "–"


def test_the_interval_of_one_run_is_about_that_of_a_share():
    hits = np.array([[1.0] * 60 + [0.0] * 40])
    low, high = map(float, interval(hits).split(" to "))
    assert low == pytest.approx(50.4, abs=1.6) and high == pytest.approx(69.6, abs=1.6)


def gains(trained, before):
    tasks = {"SentLen": probed(test=len(trained[0]))}
    of_tasks = [
        accuracy(row, kind=kind, run=run)
        for kind, rows in (("trained", trained), ("untrained", before))
        for run, row in enumerate(rows)
    ]
    table = intervals(Results([record(tasks, *of_tasks)], ["0.json"]))
    return {str(row[0]): str(row[1]) for row in table.rows}["base, above untrained"]


def test_the_gain_over_untrained_is_paired():
    dice = np.random.default_rng(1)
    before = dice.random((5, 200)) < 0.5
    assert gains(before, before) == "+0.00 (0.00 to 0.00)"
    trained = before.copy()
    trained[:, :20] = True
    gain = 100 * (trained.mean() - before.mean())
    shown, _, between = gains(trained, before).partition(" (")
    assert float(shown) == pytest.approx(gain, abs=0.005)
    low, high = map(float, between.rstrip(")").split(" to "))
    assert 0 < low < gain < high < gain + 6  # the spread of unpaired ones is about ± 10
    assert gains(before, trained).startswith(f"-{gain:.2f}")


def test_the_same_figures_in_two_files_are_no_runs(found, tmp_path):
    """They would be shown as a mean with a deviation of zero."""
    file, _ = found("tree")
    copied = tmp_path / "copied.json"
    copied.write_text(file.read_text())
    assert "the results of tree are also in" in refused(probe("--results", file, file))
    assert "include each model once" in refused(probe("--results", file, copied))


def test_checkpoints_of_one_folder_are_systems():
    """Without NAME= each has the name of its file; alone in its folder, that of the folder."""
    names = [named(words) for words in (["best/a.pt"], ["best/a.pt", "best/b.pt"])]
    assert [[one.system for one in found] for found in names] == [["best"], ["a", "b"]]
    runs = named(["x=best/a.pt", "x=best/b.pt"])
    assert [(one.system, one.run) for one in runs] == [("x", 0), ("x", 1)]


@pytest.mark.parametrize(
    "of, more, message",
    [
        ("tasks", ("--gold",), "--gold has no effect without --heads"),
        ("tasks", ("--trees-are", "gold"), "--trees-are has no effect without --trees"),
        ("heads", ("--classifier", "mlp"), "--classifier has no effect without --tasks"),
        ("results", (), "--json has no effect without --tasks or --heads"),
    ],
)
def test_an_option_without_effect_is_refused(of, more, message, world, tmp_path):
    model = (world.data, "--path", world.models["stock"])
    given = {
        "tasks": (*model, "--tasks", world.tasks),
        "heads": (*model, "--heads", *[world.trees / "sentence_length.conllu"] * 3, "--gold"),
        "results": ("--results", tmp_path / "other.json"),
    }
    assert message in refused(probe(*given[of], *more, "--json", tmp_path / "p.json"))


@pytest.mark.parametrize(
    "correct, figures, said",
    [
        ("no bits!", {}, "'correct' of base in SentLen is 'no bits!', which is not base64"),
        ("é", {}, "'correct' of base in SentLen is 'é', which"),
        ("/w==", {}, "'correct' of base in SentLen contains 8"),
        (None, {"root": 1.0}, "the figures of 'depth' lack 'spearman'"),
        (0, {}, "tasks.SentLen.test is 0, expected at least 1"),
    ],
)
def test_damaged_figures_are_refused(correct, figures, said, tmp_path):
    """The file is named, with the figures in question and the remedy."""
    file = tmp_path / "probes.json"
    own = record({"SentLen": probed(test=16)}, accuracy([1] * 16))
    of = {"system": "base", "run": 1, "model": "", "kind": "trained", "trees": "none"}
    whole = {"root": 1.0, "spearman": 1.0}
    word = WordProbe(**of, layer="top", probe="depth", seed=1, figures=whole)
    document = as_document(replace(own, words=[word]))
    document["accuracies"][0]["correct"] = correct or document["accuracies"][0]["correct"]
    document["words"][0]["figures"] = figures or whole
    document["tasks"]["SentLen"]["test"] *= correct != 0  # an empty test set
    file.write_text(json.dumps(document))
    message = refused(probe("--results", file))
    assert message.startswith(f"error: {file}: ") and said in message
    assert message.rstrip().endswith("make it again with posattn probe")


@pytest.mark.long(ci=True)
def test_text_that_nothing_segments_is_refused(world, toy_data, tmp_path):
    """A model that was trained on segmented text knows no codes; --bpe names them."""
    run = ("--task", "translation", "--arch", "transformer")
    train(toy_data, tmp_path / "bare", *QUICK, *run)
    words = tmp_path / "tasks/word_content.txt"
    write(words, [f"{s}\t{k % 2}\tunheard wordings {k} appear" for s in SIZES for k in range(6)])
    base = (world.data, "--path", tmp_path / "bare/checkpoint_last.pt", "--cpu", "--no-untrained")
    base = (*base, "--classifier", "linear", "--json", tmp_path / "p.json")
    message = refused(probe(*base, "--tasks", tmp_path / "tasks"))
    assert re.search(
        r"\d+% of the pieces are not in the .*dictionary; use --bpe and --moses to segment", message
    )
    outcome = probe(*base, "--tasks", world.tasks, "--task", "WC", "--bpe", world.codes)
    as_trained = probe(
        *(world.data, "--path", f"bare={world.models['stock']}", "--cpu", "--no-untrained"),
        *("--classifier", "linear", "--json", tmp_path / "q.json"),
        *("--tasks", world.tasks, "--task", "WC"),
    )
    kept = [vector_files(tmp_path / f"{name}.work") for name in ("p", "q")]
    assert outcome.code == as_trained.code == 0
    np.testing.assert_array_equal(*(of_run["WC", "trained"] for of_run in kept))


def test_a_row_says_which_tasks_had_other_trees():
    names = ["SentLen", "WC", "BShift"]
    tasks = {name: probed() for name in names}
    kinds = {"SentLen": "gold", "WC": "gold", "BShift": "parsed"}
    of_tasks = [accuracy([1] * 8, task=name, trees=kinds[name]) for name in names]
    shown, _ = cells(record(tasks, *of_tasks))
    assert shown["base"]["Trees"] == "gold; parsed in BShift"


def test_a_model_of_masked_words(world, toy_data, tmp_path):
    """RoBERTa has its encoder inside another one, and begins sentences with a mark."""
    data = tmp_path / "masked"
    data.mkdir()
    for path in toy_data.glob("*.src-tgt.src.*"):
        name = path.name.replace(".src-tgt.src", "")
        (data / name).symlink_to(path)
    (data / "dict.txt").symlink_to(toy_data / "dict.src.txt")
    size = ("--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16")
    call(
        *("train", data, "--user-dir", PLUGIN, "--task", "masked_lm", "--criterion", "masked_lm"),
        *("--arch", "roberta_base", "--encoder-layers", "1", "--encoder-attention-heads", "2"),
        *(*size, "--tokens-per-sample", "60", "--max-tokens", "600", "--optimizer", "adam"),
        *("--sample-break-mode", "eos", "--num-workers", "0", *QUICK, "--max-update", "1", "--cpu"),
        *("--bpe", "subword_nmt", "--bpe-codes", world.codes, "--save-dir", tmp_path / "run"),
    )
    path = f"bert={tmp_path / 'run/checkpoint_last.pt'}"
    outcome = probe(
        *(data, "--path", path, "--tasks", world.tasks, "--task", "WC", "--cpu"),
        *("--classifier", "linear", "--layer", "all", "--json", tmp_path / "p.json"),
    )
    assert outcome.code == 0, outcome.err
    probes = read_probes(str(tmp_path / "p.json"))
    assert [one.layer for one in by_kind(probes, kind="trained")] == ["0", "1"]
