"""Check what the page of the report holds, and what the report refuses."""

import json
import re
import sys
from itertools import combinations

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.page import tree_svg
from fairseq_posattn.report.drawing import styles_of
from fairseq_posattn.report.systems import read_systems
from fairseq_posattn.trees.drawing import TreeLayout, arcs_of
from support.html_pages import Parsed
from support.in_process import end_of
from support.scored_systems import BLEU, HOSTILE, both, scored

EVERY = ["scores", "significance", "gaps", "buckets", "words", "speed", "curves", "heads"]
EVERY += ["examples"]
PARTS = ["examples", "heads", "speed", "buckets", "words"]


def rows_of(text):
    return [[cell.strip() for cell in row] for row in Parsed(text).rows]


def without(about, *keys):
    for key in keys:
        about.pop(key)
    return about


@pytest.mark.parametrize(
    ("abouts", "sections"),
    [
        (both(), EVERY),
        ([scored(baseline=None)], ["scores", *EVERY[3:]]),
        ([without(scored(), *PARTS)], [*EVERY[:3], "curves"]),
        ([without(scored(), *PARTS, "training", "baseline")], ["scores"]),
    ],
)
def test_sections_for_what_is_there(page, abouts, sections):
    assert Parsed(page(*abouts)).sections() == sections


def test_ids_are_unique_and_found(page):
    text = page(*both(), scored("sequence", "newstest2015", baseline=None))
    ids = [attributes["id"] for _, attributes in Parsed(text).elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 50
    asked = re.findall(r"(?:url\(|href=\")#([^\")]+)", text)
    assert asked and set(asked) <= set(ids)


@pytest.mark.long(ci=True)
def test_scores_of_each_test_set(page):
    """Rows are aligned; the best figure is bold, for TER the lowest, and none where all are
    equal."""
    text = page(*both(), scored("sequence", "newstest2015", baseline=None))
    rows = rows_of(text)
    assert rows[0][:5] == ["system", "BLEU", "chrF2", "TER", "parameters"]
    assert rows[1] == ["newstest2014 3,003 sentences, 1 reference"]
    assert rows[2][1:5] == ["27.00", "57.00", "60.00", "65,000,000"]
    assert rows[3][:5] == [HOSTILE, "28.25 ⇑", "58.25", "58.75", "65,000,000"]
    assert rows[4][0].startswith("newstest2015")
    bold = re.findall(r"<b>(.*?)</b>", text)
    assert bold == ["28.25", "58.25", "58.75"]  # and no speed
    assert "Speeds are not ranked" in text
    assert text.count(f"<code>{BLEU}</code>") == 3


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("figure", ["length-test0", "words-frequency-test0"])
def test_intervals_are_drawn(page, figure):
    """Each group of each system has a line; a file without intervals, or with half of one, none."""
    drawn = f'id="{figure}-LineCollection_'
    assert page(*both()).count(drawn) == 4
    about = scored()
    for group in [*about["buckets"]["length"], *about["words"]["frequency"]]:
        group["interval"] = [1.0]
    assert drawn not in page(about)


def test_heads(page):
    """A map of each measure, whose darkest cell has the largest figure; what was learnt below."""
    text = page(scored())
    rows = rows_of(text)
    first = rows.index(["layer", "head 0", "head 1", "head 2"])
    assert rows[first + 1 : first + 3] == [
        ["0", "0.00", "0.25", "0.50"],
        ["1", "1.00"] + ["1.25", "1.50"],
    ]
    assert ["0", "0", "25", "50"] in rows and ["1", "0.0", "1.5", "3.0"] in rows
    assert ["encoder.layers.0.self_attn", "gaussian: sigma", "1.25", "", "1.23e+04"] in rows
    assert ["encoder.layers.0.self_attn", "gaussian: gate (layer)", "0.5", "", ""] in rows
    assert text.count('style="--share: 1.0"') == 1 + 2 + 2
    assert "always attends to the previous word would have 42 % along an edge" in text


def test_gaps_have_signs(page):
    rows = rows_of(page(*both()))
    assert [HOSTILE, "BLEU", "+0.12", "+0.25", "+0.38", "+0.50"] in [row[:6] for row in rows]
    assert [HOSTILE, "precision", "−0.25", "−0.50"] in [row[:4] for row in rows]
    assert any(row[2:7] == ["BLEU", "+1.25 ⇑", "", "", "0.004"] for row in rows)


def test_several_runs(page):
    """Deviations stand beside the means, and the tests over the runs beside the difference."""
    system = scored(better=1.25)
    system["scores"]["BLEU"] |= {"deviation": 0.314, "runs": [28.0, 28.5]}
    compared = system["baseline"]["scores"]["BLEU"]
    compared |= {"welch_p": 0.0321, "bootstrap_p": 0.0412, "interval": [-0.2, 2.5]}
    rows = rows_of(page(system))
    assert any("28.25 ± 0.31 ↑" in row for row in rows)
    assert any(row[2:6] == ["BLEU", "+1.25 ↑", "−0.20 to +2.50", "0.032"] for row in rows)


def test_marks_are_those_after_holm(page):
    """Two systems with p = 0.03 each are not significant together, as each of them would be."""
    systems = [scored(better=1.25) for _ in range(2)]
    for number, system in enumerate(systems):
        system["system"] = f"system {number}"
        system["baseline"]["scores"] = {
            "BLEU": system["baseline"]["scores"]["BLEU"]
            | {"welch_p": 0.001, "bootstrap_p": 0.03, "mark": "↑"}
        }
    rows = rows_of(page(*systems))
    assert sum(row[2:4] == ["BLEU", "+1.25"] for row in rows) == 2


def test_hostile_text_is_text(page):
    about = scored(HOSTILE, HOSTILE, baseline=HOSTILE)
    about["scores"][HOSTILE] = {"score": 1, "signature": HOSTILE}
    parsed = Parsed(page(about, title=HOSTILE))
    assert parsed.all("img") == []
    assert len(parsed.all("script")) == 2
    assert "".join(parsed.texts).count(HOSTILE) > 10


def test_nothing_from_elsewhere(page):
    """The page has no address but the names of namespaces, and itself forbids more."""
    text = page(*both())
    assert set(re.findall(r"https?://[^\"\s]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in text
    assert not [a for _, a in Parsed(text).elements if "src" in a]


def test_a_look_for_each_system(write_results):
    names = [f"system {k}" for k in range(12)]
    systems = read_systems(write_results(*(scored(n, baseline="system 3") for n in names)))
    found = styles_of(systems)
    assert len(set(found.values())) == 12
    assert (found["system 3"].colour, found["system 3"].line) == ("#6b7280", "--")


# the arcs


def span_pairs(arcs):
    return [
        (a, b) for a, b in combinations(arcs, 2) if a.span[0] < b.span[1] and b.span[0] < a.span[1]
    ]


TREES = {
    "one": [0],
    "two": [0, 1],
    "chain": [2, 3, 4, 0],
    "flat": [0, 1, 1, 1, 1],
    "both sides": [2, 3, 8, 5, 3, 7, 5, 0, 10, 12, 10, 8, 15, 15, 8, 8, 8],
    "crossing": [0, 4, 1, 1, 3],
}


@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
def test_arcs(parents):
    """Each joins a parent and its child, and no two that overlap lie at one height."""
    arcs = arcs_of(parents)
    expected = {(parent - 1, child) for child, parent in enumerate(parents) if parent}
    assert {(arc.parent, arc.child) for arc in arcs} == expected
    assert all(a.level != b.level for a, b in span_pairs(arcs))
    for a, b in span_pairs(arcs):
        if a.span[0] <= b.span[0] and b.span[1] <= a.span[1]:
            assert a.level > b.level


PATH = re.compile(r"M([\d.]+) ([\d.]+)L[\d.]+ [\d.]+Q[\d.]+ ([\d.]+) .*Q([\d.]+) [\d.]+ [\d.]+")


def segments(parents, words):
    """Return x of the start, height and x of the end of each arc as it is drawn."""
    svg = tree_svg(TreeLayout(words, parents, words))
    lines = re.findall(r'class="line" d="(M[^"]+Q[^"]+)"', svg)
    return [[float(number) for number in PATH.match(line).groups()] for line in lines]


@pytest.mark.parametrize("kind", ["two", "chain", "flat", "both sides"])
def test_drawn_arcs_do_not_cross(kind):
    """In projective trees no upright of an arc cuts the top of another."""
    parents = TREES[kind]
    words = [f"w{'o' * (k % 5)}rd" for k in range(len(parents))]
    found = segments(parents, words)
    assert len(found) == len(parents) - 1
    layout = TreeLayout(words, parents, words)
    for arc, (start, _, _, end) in zip(layout.arcs, found, strict=True):
        assert (start, end) == pytest.approx(layout.ends(arc), abs=0.06)
    for one, other in combinations(found, 2):
        for (start, foot, top, end), (left, _, height, right) in ((one, other), (other, one)):
            for upright in (start, end):
                inside = min(left, right) < upright < max(left, right)
                assert not (inside and top < height < foot)


# what is refused


def damaged(**changes):
    about = scored()
    for path, value in changes.items():
        *folders, name = path.split("__")
        place = about
        for folder in folders:
            place = place[int(folder) if folder.isdecimal() else folder]
        if value is None:
            del place[name]
        else:
            place[int(name) if name.isdecimal() else name] = value
    return about


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("{", "0.json: the file is damaged .*posattn score"),
        (damaged(version=2), "0.json has format version 2, but this release reads 1"),
        (damaged(scores__BLEU__score=None), "scores.BLEU.score is missing"),
        (
            damaged(examples__0__parents=[2, 3, 0]),
            r"examples\[0\]: found 3 parents for 4 words",
        ),
        (damaged(examples__0__parents=[2, 1, 0, 3]), r"examples\[0\]: .* cycle: 1 -> 2 -> 1"),
        (damaged(examples__0__depths=[2, 1, 0, 2]), "depths differ from those in the tree"),
        (damaged(examples__0__attention__heads=4), "found 150 weights, expected 200"),
        (
            damaged(examples__0__attention__keys=6),
            "the attention has the shape 2 x 3 x 5 x 6, but there are 5 pieces",
        ),
        (damaged(examples__0__attention__weights="?"), "the weights are not base64"),
    ],
)
def test_refused(write_results, about, message):
    with pytest.raises(InputError, match=message):
        read_systems(write_results(about))


@pytest.mark.long(ci=True)
def test_a_bom_and_keys_of_other_versions_do_no_harm(page):
    about = {**scored(), "more": float("inf")}
    about["examples"][0]["more"] = {"a": [float("nan")]}
    assert page("\ufeff" + json.dumps(about)) == page(scored())


def test_several_files_of_one_system_are_refused(write_results):
    """Its runs belong together into one file; on another test set it is another row."""
    with pytest.raises(InputError) as raised:
        read_systems(write_results(scored("a"), scored("b"), scored("a")))
    message = str(raised.value)
    assert re.search(r"2\.json: a on newstest2014 is also in \S+0\.json; ", message)
    assert "posattn score RUN1 RUN2 ... --json FILE" in message
    assert len(read_systems(write_results(scored("a"), scored("a", "newstest2015")))) == 2
    [path] = write_results(scored("a"))
    with pytest.raises(InputError, match=r"0\.json is given twice"):
        read_systems([path, path])


def test_without_matplotlib(page, monkeypatch):
    """Only figures need it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        InputError, match=r"matplotlib; install it with pip install 'fairseq_posattn\[lab\]'"
    ):
        page(scored())
    assert page(without(scored(baseline=None), "buckets", "words", "speed", "training"))


def test_without_jinja(tmp_path, monkeypatch):
    for name in ("report.report", "inspection.page"):
        monkeypatch.delitem(sys.modules, f"fairseq_posattn.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    line = end_of("report", "x.json", "--out", tmp_path / "r.html")
    assert "needs the package jinja2; install it with pip install" in line


@pytest.mark.long(ci=True)
def test_command(write_results, tmp_path):
    paths, out = write_results(*both()), tmp_path / "r.html"
    assert end_of("report", *paths, "--out", out, "--title", "A & B") == ""
    assert "<title>A &amp; B</title>" in out.read_text(encoding="utf-8")
    write_results("{")
    line = end_of("report", *paths, "--out", out)
    assert line.startswith(f"error: {paths[0]}: the file is damaged")
