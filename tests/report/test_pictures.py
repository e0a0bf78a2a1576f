"""Pictures are as they were recorded: all that is drawn, where, how large and in which colours.

If a change is meant, look at the pictures, and `NEW_PICTURES=1 pytest FILE` records the new ones.
"""

from contextlib import contextmanager
from pathlib import Path

import pytest

from fairseq_posattn.inspection.figure import sheet
from fairseq_posattn.inspection.page import tree_svg
from fairseq_posattn.inspection.picture import make_picture
from fairseq_posattn.report import figures
from fairseq_posattn.trees.drawing import TreeLayout
from fairseq_posattn.trees.sentence import Sentence
from support.scored_systems import both

pytest.importorskip("matplotlib")
from support.inventory import equals_recorded, inventory  # it imports matplotlib

HERE = Path(__file__).parent
SENTENCE = Sentence(
    ["the", "cat", "sleeps", "on", "mats"],
    [2, 3, 0, 5, 3],
    relations=["det", "nsubj", "root", "case", "obl"],
)


def test_pictures_of_mechanisms():
    found = {
        specification: inventory(sheet(make_picture(specification, SENTENCE, heads=2)))
        for specification in ("tree_relative + window(size=3)", "gaussian", "directional")
    }
    equals_recorded(found, HERE / "pictures_of_mechanisms.json")


def test_figures_of_the_report(page, monkeypatch):
    drawn = {}

    @contextmanager
    def drawing(name, size, title):
        with original(name, size, title) as (axes, done):
            yield axes, done
            drawn[name] = inventory(axes.figure)

    original = figures.drawing
    monkeypatch.setattr(figures, "drawing", drawing)
    page(*both())
    assert len(drawn) > 5
    equals_recorded(drawn, HERE / "figures_of_the_report.json")


def test_trees_of_the_report():
    crossing = Sentence(["a", "b", "c", "d"], [3, 4, 0, 3])
    found = {}
    for sentence in (SENTENCE, crossing):
        svg = tree_svg(TreeLayout(sentence.words, sentence.parents, sentence.relations))
        found[str(sentence)] = svg.replace("><", ">\n<").splitlines()
    equals_recorded(found, HERE / "trees_of_the_report.json")
