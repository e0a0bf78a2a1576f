"""A score comes from the texts, data and files that are there now, or it is refused."""

import json
import lzma
import shutil

import pytest

from support.experiments import PREPARING, TINY, Experiment
from support.files import write
from support.raw_corpus import write_raw

pytest.importorskip("stanza")
pytestmark = pytest.mark.long

RECIPE = """
title = "x"
source = "de"
target = "en"
corpus = { valid = "valid", tests = ["test", "again"] }
models = [{ model = "sequence", size = "base" }]
sizes.base = { arch = "_tiny", updates = 2, batch_tokens = 1000, save_every = 1, averaged = 1 }
"""
EVALUATE = ("evaluate", "sequence", "--cpu", "--examples", 1)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A recipe of two test sets, trained and evaluated."""
    folder = tmp_path_factory.mktemp("evaluated")
    write_raw(folder)
    shutil.rmtree(folder / "raw")
    for end in ("de", "en", "conllu"):
        shutil.copy(folder / f"tidy/valid.{end}", folder / f"tidy/again.{end}")
    shutil.copytree(folder / "tidy", folder / "work/raw")
    write(folder / "recipe.toml", RECIPE)
    write(folder / "comet.txt", ["0.5"] * 24)
    experiment = Experiment(str(folder), folder / "work")
    experiment.start("prepare", "--from", folder / "tidy", "--", *PREPARING)
    experiment.start("train", "sequence", "--cpu", "--", *TINY)
    return experiment


def test_everything_that_a_score_reads_is_part_of_it(evaluated):
    folder, work = evaluated.work.parent, evaluated.work
    scored = f'[evaluation.score]\nsegment-scores = ["COMET={folder}/comet.txt"]\n'
    write(folder / "recipe.toml", RECIPE.replace(', "again"', "") + scored)
    assert "heads.test" in evaluated.start(*EVALUATE).stdout
    printed = evaluated.start(*EVALUATE).stdout
    assert printed.count(": already done") == 5  # average, translate, examples, heads and score

    def comet():
        [path] = work.glob("results/*.json")
        return json.loads(path.read_text())["scores"]["COMET"]["score"]

    assert comet() == 0.5
    write(folder / "comet.txt", ["0.25"] * 24)
    evaluated.start(*EVALUATE)
    assert comet() == 0.25
    trees = work / "data.work/test.conllu.xz"
    before = trees.read_bytes()
    other = lzma.decompress(before).replace(b"\tdep\t", b"\tobj\t")
    trees.write_bytes(lzma.compress(other))
    printed = evaluated.start(*EVALUATE).stdout
    trees.write_bytes(before)
    assert "heads.test ..." in printed and "examples.test ..." in printed
