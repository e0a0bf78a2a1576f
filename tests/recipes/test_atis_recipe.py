"""The recipe for UD ATIS: from two treebanks to a table, in both directions."""

import csv

import pytest

from fairseq_posattn.experiments.recipe import read_recipe
from support.commands import ROOT, script
from support.experiments import TINY, Experiment, in_process
from support.files import lines_of, write
from support.raw_corpus import MAX_WORDS, SIZES

RECIPES = ["atis_en_tr", "atis_en_tr/tr_en"]


def write_treebanks(corpus, folder) -> None:
    """The source with its trees, and its translation with flat ones; the last one is missing."""
    folder.mkdir()
    for split, name in zip(SIZES, ("train", "dev", "test"), strict=True):
        blocks = (corpus.folder / f"tidy/{split}.conllu").read_text().split("\n\n")[:-1]
        named = [f"# sent_id = {k}\n{block}\n\n" for k, block in enumerate(blocks)]
        (folder / f"en_atis-ud-{name}.conllu").write_text("".join(named))
        rows = []
        for k, line in enumerate(lines_of(corpus.folder / f"tidy/{split}.en")[:-1]):
            words = line.split()
            rows += [f"# sent_id = {k}", f"# text = {line}"]
            for n, word in enumerate(words, start=1):
                tail = f"{int(n > 1)}\t{'dep' if n > 1 else 'root'}\t_\t_"
                rows.append(f"{n}\t{word}\t_\tX\t_\t_\t{tail}")
            rows.append("")
        write(folder / f"tr_atis-ud-{name}.conllu", rows)


@pytest.mark.long
@pytest.mark.parametrize("recipe", RECIPES)
def test_from_treebanks_to_a_table(corpus, recipe, tmp_path):
    pytest.importorskip("stanza")
    write_treebanks(corpus, tmp_path / "from")
    experiment = Experiment(recipe, tmp_path / "work")
    parser = ("--model-dir", corpus.models, "--lang", "de", "--max-words", MAX_WORDS)
    options = ("--any-size", "--", "--symbols", 90, *parser)
    experiment.start("prepare", "--from", tmp_path / "from", *options)
    work = experiment.work
    source, target = recipe[-5:].split("_")
    assert len(lines_of(work / f"raw/test.{target}")) == SIZES["test"] - 1
    assert len(lines_of(work / "raw/test.order")) == SIZES["test"] - 1
    assert lines_of(work / "data.work/test.words") == lines_of(work / f"raw/test.{source}")
    assert lines_of(work / "data.parsed.work/test.words") == lines_of(work / "data.work/test.words")
    for split in ("train", "test"):  # other trees over the same words
        gold, parsed = (
            (work / f"{data}/{split}.{source}-{target}.{source}.bin").read_bytes()
            for data in ("data", "data.parsed")
        )
        assert gold == parsed
    shown = recipe == RECIPES[0]
    models = ["structural", "structural_parsed"] if shown else ["tree_relative_chain"]
    how = ["--cpu", "--size", "demo", "--updates", 4, "--last", 2, "--examples", int(shown)]
    experiment.start("table", "--models", *models, *how, "--", *TINY)
    rows = list(csv.DictReader((work / "table.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == models
    assert (work / "report.html").exists()


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("from nashville to seattle", "Nashville'den Seattle'ye", "same"),
        ("from nashville to seattle", "Seattle’ye Nashville’den giden", "crossed"),
        ("to dc on delta", "DC aktarmalı bir uçuş", "few"),
        ("a boston or boston flight to dallas", "Boston ve Dallas, a", "few"),
        ("ap80 and ap 57", "ap57 AP80 kısıtlaması", "few"),
        ("", "", "few"),
    ],
)
def test_whether_the_order_crosses(source, target, expected):
    corpus = script(ROOT / "recipes/atis_en_tr/corpus.py")
    assert corpus.order(source, target) == corpus.order(target, source) == expected


def test_data_with_parsed_trees_need_a_parser(tmp_path):
    _, out, err = in_process("prepare", RECIPES[0], "--from", tmp_path, "--dry-run")
    assert "data with parsed trees are skipped; to build them, give" in err
    assert "--out" in out and "data.parsed " not in out


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_model_has_its_controls(recipe):
    content = read_recipe(recipe).content
    assert [content.source, content.target] == recipe[-5:].split("_")
    models = {row.title: row for row in content.models}
    for name in ("structural", "tree_relative"):
        for trees in ("chain", "shuffled", "parsed"):
            of_trees = models[f"{name}_{trees}"]
            assert of_trees.trees == trees
            assert of_trees.model == models[name].model
            assert of_trees.training == models[name].training
    names = {source.name for source in content.corpus.downloads}
    assert names == {
        pattern.replace("{}", language)
        for pattern in content.corpus.treebanks.values()
        for language in ("en", "tr")
    }


@pytest.mark.parametrize(
    ("recipe", "languages"),
    [
        ("atis_en_tr/walk", ("en", "tr")),
        ("atis_en_tr/walk_tr_en", ("tr", "en")),
        ("multi30k_en_de/walk", ("en", "de")),
    ],
)
def test_decoders_that_walk_have_their_controls(recipe, languages):
    content = read_recipe(recipe).content
    models = {row.title: row for row in content.models}
    assert (content.source, content.target) == languages
    assert not content.corpus.prepare.get("align")  # an option of the command line
    for name in ("walk", "walk_labels", "walk_open"):
        for trees in ("chain", "shuffled"):
            of_trees = models[f"{name}_{trees}"]
            assert of_trees.trees == trees
            assert of_trees.training == models[name].training
        assert models[name].training["load-alignments"]
    assert "load-alignments" not in models["walk_untaught"].training
