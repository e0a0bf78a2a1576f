"""These tests run posattn show as a command: files of each kind, sentences, errors of one line."""

import lzma
import re
import sys
from itertools import combinations
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.inspection import figure
from fairseq_posattn.inspection.figure import sheet, write
from fairseq_posattn.inspection.page import page
from fairseq_posattn.inspection.picture import make_picture
from fairseq_posattn.inspection.rows import Kind
from fairseq_posattn.inspection.sentence import BUILT_IN, END
from fairseq_posattn.trees.sentence import Sentence
from support import own_classes
from support.html_pages import Parsed
from support.in_process import end_of, posattn

SHORT = Sentence(["the", "cat", "sleeps"], [2, 3, 0], relations=["det", "nsubj", "root"])
BRACKETED = Sentence(["sleep", "(", "cat", ")"], [0, 1, 2, 2], relations=["root", "p", "x", "p"])
CONLLU = (
    "1\twe\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsaw\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    "1\tthey\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tleft\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    "1\tno\t_\t_\t_\t_\t_\t_\t_\t_\n2\ttree\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
)


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Run the command in an empty folder; return the last line on stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: end_of("show", *arguments)


@pytest.mark.long(but=["relative", "block", "window"])
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_mechanism_is_drawn(name, tmp_path):
    sentence = BRACKETED if MECHANISMS[name].reads_brackets else SHORT
    picture = make_picture(name, sentence, heads=2)  # directional takes two
    assert len(picture.rows) >= 2 and picture.mechanisms[0].summary
    png, html = tmp_path / "a.png", tmp_path / "a.html"
    assert write(picture, png, "png") and write(picture, html, "html")
    with Image.open(png) as image:
        assert (image.width, image.mode) == (800, "P")
        assert len(image.getcolors()) > 10  # not an empty sheet
        assert image.info["Title"] == picture.title
    assert len(Parsed(html.read_text()).all("caption")) == sum(
        len(row.panels) for row in picture.rows
    )


def test_the_cells_of_a_page_are_the_numbers():
    picture = make_picture("relative(max=2)", SHORT)
    parsed = Parsed(page(picture))
    numbers = np.concatenate([panel.values.ravel() for row in picture.rows for panel in row.panels])
    rows = [[cell.strip() for cell in row] for row in parsed.rows]
    texts = [text for name, *cells in rows if name for text in cells]
    tooltips = [cell["data-said"] for cell in parsed.all("td") if "data-said" in cell]
    for text, tooltip, value in zip(texts, tooltips, numbers, strict=True):
        shown = float(text.replace("−", "-"))
        assert shown == pytest.approx(float(value), abs=0.00501)
        assert tooltip.endswith(f": {text}")
    assert tooltips[1].startswith("the → cat: ")
    words = [*SHORT.words, END]
    assert rows[0] == ["", *words] and {name for name, *_ in rows} == {"", *words}


def test_a_page_needs_no_network_and_no_script():
    text = page(make_picture("tree_relative", BUILT_IN))
    elements = Parsed(text).elements
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in elements}
    assert not [a for _, a in elements if {"src", "href", "onclick"} & set(a)]
    assert "default-src 'none'" in text and "url(" not in text and "http://" not in text
    assert "prefers-color-scheme: dark" in text


def test_a_screen_reader_finds_names():
    tags = Parsed(page(make_picture("tree_relative", BUILT_IN))).elements
    assert next(a for tag, a in tags if tag == "svg")["aria-label"] == "dependency tree"
    assert {a.get("scope") for tag, a in tags if tag == "th"} == {"row", "col"}
    assert all(a["aria-label"] for _, a in tags if a.get("role") == "group")


def test_hostile_words_stay_words(tmp_path):
    sentence = Sentence(["<script>alert(1)</script>", "$x_", "a&b\x01"], [0, 1, 1])
    picture = make_picture("parent_scaled", sentence, heads=1)
    text = page(picture)
    assert "<script" not in text and "&lt;script&gt;" in text
    for kind in ("svg", "png"):
        write(picture, tmp_path / f"x.{kind}", kind)
    ElementTree.parse(tmp_path / "x.svg")


def test_letters_that_the_font_lacks(show, tmp_path, monkeypatch):
    monkeypatch.setattr(figure, "EAST_ASIAN", ())
    said = show("window", "--sentence", "猫", "--heads", 1, "--out", "x.png")
    assert "drawn as boxes; install a font that contains them (for East Asian text," in said
    assert show("window", "--sentence", "猫", "--out", "x.html") == ""
    assert "猫" in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("specification", "words"),
    [("tree_relative", 12), ("deps_san", 40), ("window(across=3) + temperature", 1)],
)
def test_no_text_leaves_the_sheet_or_covers_another(specification, words):
    """Titles, labels, words and the texts of a tree, measured as they are drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    names = [f"Wort{k}" * (1 + k % 2) for k in range(words)]
    parents, relations = [0] + [1] * (words - 1), ["acl:relcl"] * words
    figure = sheet(make_picture(specification, Sentence(names, parents, relations=relations)))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    texts = list(figure.texts)
    for axes in figure.axes:
        texts += axes.texts + axes.get_xticklabels() + axes.get_yticklabels()
    boxes = [text.get_window_extent(renderer) for text in texts if text.get_text()]
    width, height = figure.get_size_inches() * figure.dpi
    for box in boxes:
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
    covered = [pair for pair in combinations(boxes, 2) if overlap(*pair)]
    assert not covered


@pytest.mark.parametrize("specification", ["relative(max=2)", "window + temperature"])
def test_the_heading_has_the_equations(specification):
    picture = make_picture(specification, Sentence([*"abc"], [2, 0, 2]))
    drawn = "".join("".join(text.get_text().split()) for text in sheet(picture).texts)
    equations = [about.equation for about in picture.mechanisms]
    assert all(equations) and all("".join(text.split()) in drawn for text in equations)


def overlap(one, other):
    """Return whether two rectangles share more than their edges."""
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > 1
        and min(one.y1, other.y1) - max(one.y0, other.y0) > 1
    )


# The command.


def test_the_built_in_sentence_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = posattn("show", "parent_scaled", "--heads", 1, "--out", "a.svg")
    assert ended == (0, f"built-in sentence, with its tree: {BUILT_IN}\na.svg\n", "")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert "acl:relcl" in "".join(root.itertext())  # the arcs


def test_same_command_same_bytes(show, tmp_path):
    for kind in ("png", "svg", "html"):
        for name in "ab":
            show("gaussian", "--sentence", "a", "--heads", 1, "--out", f"{name}.{kind}")
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


@pytest.mark.parametrize(("number", "word"), [(None, "we"), (1, "they")])
def test_sentences_of_a_packed_file(show, tmp_path, number, word):
    with lzma.open(tmp_path / "a.conllu.xz", "wt") as file:
        file.write(CONLLU)
    options = [] if number is None else ["--number", number]
    assert show("tree_relative", "--conllu", "a.conllu.xz", *options, "--out", "a.html") == ""
    text = (tmp_path / "a.html").read_text()
    assert f'<th scope="row">{word}</th>' in text and 'class="tree"' in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "no attention mechanism is called 'nope'; the nearest of 29 names are rope, "),
        ([""], "the specification is empty; specify a mechanism"),
        (["tree_relative", "--sentence", "a b"], "'tree_relative' needs a dependency tree, but "
         "--sentence has none; use --conllu FILE to draw a sentence with a tree"),
        (["tree_relative", "--conllu", "a.conllu", "--number", 2],
         "the sentence at a.conllu:7 has none; use --conllu FILE to draw a sentence with a tree"),
        (["window", "--conllu", "a.conllu", "--number", 3],
         "a.conllu has 3 sentences, so --number 3, which counts from 0, is too large"),
        (["window", "--number", 1], "give the file with --conllu"),
        (["window", "--sentence", "a " * 101], "the sentence has 101 words; choose a sentence of"),
        (["window@2-3", "--layer", 1], "--layer 1: no .* acts in this layer; choose 2-3"),
        (["window", "--user-dir", "mine"], "mine: there is no file, folder or module of this name"),
        (["window", "--out", "x.jpg"], "--out x.jpg has no known suffix; use .png, .svg or .html"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_leave_no_file(show, tmp_path, arguments, message):
    (tmp_path / "a.conllu").write_text(CONLLU)
    line = show("--out", "x.png", *arguments)
    assert line.startswith("error: ") and re.search(message, line), line
    assert not (tmp_path / "x.png").exists()


def test_a_faulty_class_of_ones_own_ends_in_one_line(show, tmp_path):
    (tmp_path / "faulty_shown").mkdir()
    (tmp_path / "faulty_shown/__init__.py").write_text("x = nosuch\n")
    line = show("window", "--user-dir", "faulty_shown", "--out", "x.html")
    assert "faulty_shown/__init__.py:1: the import failed with NameError: " in line


def test_a_missing_matplotlib_is_named_with_its_remedy(show):
    with mock.patch.dict(sys.modules, {"matplotlib.figure": None}):
        line = show("window", "--out", "x.png")
    assert "pip install '.[lab]'" in line and "matplotlib" in line


def test_a_mechanism_of_ones_own(show, tmp_path):
    folder = tmp_path / "my_shown_mechanisms"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import torch\n"
        "from fairseq_posattn.attention import ScoreMask, register\n\n\n"
        "@register\n"
        "class OwnShown(ScoreMask):\n"
        '    """Every word sees what is two away at most."""\n\n'
        '    name = "own_shown"\n\n'
        "    def allowed(self, q, ctx):\n"
        "        return (ctx.distances.abs() <= 2)[None, None]\n"
    )
    with own_classes.restored():
        assert show("own_shown", "--user-dir", folder, "--out", "x.html") == ""
        picture = make_picture("own_shown", BUILT_IN)
    [mask] = [row for row in picture.rows if row.kind == Kind.MASK]
    assert mask.panels[0].values.sum() == 10 + 2 * (9 + 8)
    text = (tmp_path / "x.html").read_text()
    assert "Every word sees what is two away at most." in text and "own_shown: which keys" in text
