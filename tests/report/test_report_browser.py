"""The report in a browser: what is seen, and that nothing is hidden or asked for."""

import re
import shutil
from itertools import pairwise

import pytest

from fairseq_posattn.report import report
from fairseq_posattn.report.systems import read_systems
from support.scored_systems import HOSTILE, both, example, scored, spread

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium")
    flags = ["no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
    flags += ["disable-background-networking", "disable-component-update"]
    flags = [f"--{flag}" for flag in flags]
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=flags)
        yield started
        started.close()


class Shown:
    """A page in the browser, and what it said and asked for."""

    def __init__(self, browser, path, text):
        path.write_text(text, encoding="utf-8")
        self.said, self.asked = [], []
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())

    def choose(self, **values):
        for name, value in values.items():
            self.page.select_option(f"#choose-{name}", str(value))

    def chosen(self, name):
        return self.page.input_value(f"#choose-{name}")

    def options(self, name):
        return self.page.locator(f"#choose-{name} option").all_inner_texts()

    def weight(self, query, key):
        """Return what the tooltip says."""
        cell = self.page.locator(f"[data-query='{query}'][data-key='{key}']")
        cell.hover()
        return self.page.inner_text("#tooltip")

    def fills(self):
        read = "cells => cells.map(cell => cell.getAttribute('fill'))"
        return self.page.eval_on_selector_all(".map .cell", read)

    def figures(self):
        return self.page.locator("figure svg:visible, .swatch:visible, .heads canvas:visible").all()


@pytest.fixture
def shown(browser, page, tmp_path):
    opened = []

    def show(*abouts):
        opened.append(Shown(browser, tmp_path / "report.html", page(*abouts)))
        return opened[-1]

    yield show
    for one in opened:
        assert one.said == []
        assert one.asked == [(tmp_path / "report.html").as_uri()]
        one.page.close()


@pytest.mark.long(ci=["screen"])
@pytest.mark.parametrize("medium", ["screen", "print"])
def test_every_figure_is_seen(shown, medium):
    """No figure is wider than the page."""
    long = scored("long")
    long["examples"].insert(0, example(0, [f"words{k}" for k in range(30)], [0, *range(1, 30)]))
    seen = shown(long, *both())
    if medium == "screen":
        seen.choose(sentence=1)  # the long one may be scrolled
    seen.page.emulate_media(media=medium)
    if medium == "print":
        seen.page.set_viewport_size({"width": 690, "height": 1000})
    figures = seen.figures()
    assert len(figures) >= 7 + 2 + 4  # plots, tree and map, heads
    width = seen.page.viewport_size["width"]
    for figure in figures:
        box = figure.bounding_box()
        assert box["width"] > 10 and box["height"] > 8, figure
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, figure
    assert seen.page.locator(".controls").is_visible() == (medium == "screen")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_text_of_plots_stays_within(shown):
    seen = shown(*both())
    for plot in seen.page.locator(".plot").all():
        frame = plot.bounding_box()
        for text in plot.locator("text").all():
            box = text.bounding_box()
            assert box["x"] >= frame["x"] - 2, text.inner_text()
            assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 2


SIZE = """text => {
  const { a, b } = text.getCTM(); // it may be turned
  return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
}"""


def test_text_is_readable_on_a_telephone(shown):
    """Wide figures are scrolled, so their text stays as large as that of the others."""
    seen = shown(*both())
    seen.page.set_viewport_size({"width": 390, "height": 844})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    heights = {}
    for table in seen.page.locator("#heads figure").all():
        assert table.bounding_box()["width"] <= 390
    for plot in seen.page.locator(".plot").all():
        assert plot.bounding_box()["width"] <= 390
        for text in plot.locator("text").all():
            heights[text.text_content()] = text.evaluate(SIZE)
    assert min(heights.values()) >= 7.5, heights


def test_the_first_number_of_each_table_is_seen_on_a_telephone(shown):
    """Also beside long names of systems."""
    names = [f"structural_with_relative_positions_and_labels.demo.{k}" for k in range(2)]
    seen = shown(*({**about, "system": name} for about, name in zip(both(), names, strict=True)))
    seen.page.set_viewport_size({"width": 390, "height": 844})
    tables = [table for table in seen.page.locator("table").all() if table.is_visible()]
    assert len(tables) > 2
    for table in tables:
        number = table.locator("tbody .number").first
        if number.count():
            box = number.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= 390, table.inner_text()
    scores = seen.page.locator("#scores .wide")
    scores.evaluate("wide => { wide.scrollLeft = wide.scrollWidth; }")
    assert scores.evaluate("wide => wide.scrollLeft") > 0
    assert scores.locator("tbody th[scope=row]").first.bounding_box()["x"] >= 0  # it stays


def test_choosing_draws_another_map(shown):
    seen = shown(scored())
    assert seen.options("sentence")[0] == "17: The dog barks ."
    assert (seen.options("layer"), seen.options("head")) == (["0", "1"], ["mean", "0", "1", "2"])
    maps = {}
    for sentence in (0, 1):
        seen.choose(sentence=sentence)
        for layer in (0, 1):
            for head in ("mean", 0, 1, 2):
                seen.choose(layer=layer, head=head)
                maps[sentence, layer, head] = tuple(seen.fills())
    assert {len(fills) for (sentence, *_), fills in maps.items() if sentence == 0} == {25}
    assert {len(fills) for (sentence, *_), fills in maps.items() if sentence == 1} == {9}
    same_mean = [key for key in maps if key[2] != "mean"]  # the mean is head 1's here
    assert len({maps[key] for key in same_mean}) == len(same_mean)


@pytest.mark.parametrize(
    ("layer", "head", "query", "key", "value"),
    [(0, 0, 0, 0, "0.00"), (1, 2, 3, 1, "0.59"), (0, 2, 4, 4, "0.22"), (1, "mean", 2, 3, "0.51")],
)
def test_tooltip(shown, layer, head, query, key, value):
    seen = shown(scored())
    seen.choose(layer=layer, head=head)
    pieces = ["The", "dog", "barks", ".", "</s>"]
    text = seen.weight(query, key)
    assert text.startswith(f"{pieces[query]} → {pieces[key]}") and text.endswith(value)
    marked = seen.page.locator(".map .chosen").all_text_contents()
    assert sorted(marked) == sorted([pieces[query], pieces[key]])


def test_the_attention_of_the_decoder(shown):
    """Its rows are what is predicted; its columns what was read, or the source."""
    seen = shown(scored(), scored("older", baseline=None))
    assert seen.options("kind") == ["encoder", "decoder", "decoder to source"]
    for kind, columns in (
        ("cross_attention", ["The", "dog", "barks", ".", "</s>"]),
        ("decoder_attention", ["<s>", "der", "Hund"]),
    ):
        seen.choose(kind=kind, head=2)
        assert seen.options("layer") == ["0"]
        rows = ["der", "Hund", "</s>"]
        assert seen.page.locator(".map .query").all_text_contents() == rows
        assert seen.page.locator(".map .key").all_text_contents() == columns
        assert len(seen.fills()) == len(rows) * len(columns)
        assert seen.weight(1, 2).startswith(f"Hund → {columns[2]}")
    seen.choose(sentence=1)
    assert seen.chosen("kind") == "decoder_attention"


def test_an_older_file_has_the_encoder_s_attention_alone(shown):
    about = scored()
    for found in about["examples"]:
        for key in ("target_pieces", "decoder_attention", "cross_attention"):
            del found[key]
    seen = shown(about)
    assert not seen.page.locator("#choose-kind").is_visible()
    assert len(seen.fills()) == 25


def test_the_scale(shown):
    """Darker means more; the largest weight of the map is named."""
    seen = shown(scored())
    seen.choose(layer=1, head=2)
    fills = [sum(map(int, re.findall(r"\d+", fill))) for fill in seen.fills()]
    weights = [spread(1, 2, query, key) for query in range(5) for key in range(5)]
    assert sorted(range(25), key=lambda k: -fills[k]) == sorted(range(25), key=lambda k: weights[k])
    assert seen.page.locator(".map .tick").all_text_contents()[-1] == f"{156 / 255:.2f}"


def test_heads_in_small_choose(shown):
    seen = shown(scored())
    before = seen.fills()
    seen.page.click(".heads button:has-text('head 0')")
    assert seen.chosen("head") == "0"
    assert seen.fills() != before
    assert seen.page.locator(".heads [aria-pressed=true]").inner_text() == "head 0"


def test_sentences_and_systems(shown):
    """The same sentence stays when the system changes; its words, tree and texts are shown."""
    seen = shown(*both())
    assert seen.options("system") == ["sequence", HOSTILE]
    seen.choose(sentence=1, head=2)
    assert seen.page.text_content(".example:visible .tree .word >> nth=0") == HOSTILE
    seen.choose(system=1)
    assert seen.page.text_content("#choose-sentence option:checked").startswith("3: ")
    assert seen.chosen("head") == "2"
    assert seen.page.locator(".example:visible").count() == 1
    assert f"Sentence 3, {HOSTILE}" in seen.page.inner_text(".example:visible")
    assert seen.page.locator(".map .query-0").inner_html() == (
        HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    seen.choose(sentence=5)
    assert seen.page.inner_text(".example:visible .source") == "no tree"


def test_print_shows_what_was_chosen(shown, tmp_path):
    seen = shown(scored())
    seen.choose(sentence=1, layer=0)
    seen.page.emulate_media(media="print")
    assert seen.page.locator(".example:visible").count() == 1
    assert "Sentence 3" in seen.page.inner_text(".example:visible")
    assert "layer 0" in seen.page.inner_text("#attention figcaption")
    assert seen.page.pdf(format="A4").startswith(b"%PDF")


def test_labels_of_long_sentences(shown):
    """With 60 pieces no label of the map lies on its neighbour."""
    about = scored()
    about["examples"] = [example(0, [f"word{k}" for k in range(59)], None)]
    seen = shown(about)
    boxes = [text.bounding_box() for text in seen.page.locator(".map .query").all()]
    assert len(boxes) == 60
    assert all(b["y"] - a["y"] >= 9 for a, b in pairwise(boxes))
    frame = seen.page.locator(".map").bounding_box()
    for label in seen.page.locator(".map .key, .map .query").all():
        box = label.bounding_box()
        assert box["x"] >= frame["x"] - 1 and box["y"] >= frame["y"] - 1


HIDDEN = "dog\u202egod\u2066\u200b\u061c\u200e\x1b"
SEEN = "dog\\u202egod\\u2066\\u200b\\u061c\\u200e\\x1b"


def test_what_cannot_be_seen_is_shown_as_an_escape(browser, write_results, tmp_path):
    """In names, tables, trees, texts, maps, lists: no character changes the order of others."""
    about = scored(f"system {HIDDEN}", test=f"test {HIDDEN}", baseline=f"base {HIDDEN}")
    about["source"] = HIDDEN
    about["scores"][f"metric {HIDDEN}"] = {"score": 1.0, "signature": f"signature {HIDDEN}"}
    shown = example(0, ["a", HIDDEN], [2, 0], [f"relation {HIDDEN}", "root"])
    about["examples"] = [{**shown, "translation": f"to {HIDDEN}", "reference": f"as {HIDDEN}"}]
    text = report.page(read_systems(write_results(about)), "title")
    seen = Shown(browser, tmp_path / "report.html", text)
    body = seen.page.evaluate("document.documentElement.textContent")
    for char in HIDDEN.replace("dog", "").replace("god", ""):
        assert char not in text and char not in body
    for what in ("system", "base", "metric", "signature", "relation", "to", "as"):
        assert f"{what} {SEEN}" in body
    assert seen.options("sentence") == [f"0: a {SEEN}"]
    assert SEEN in seen.page.locator(".tree .word").all_text_contents()
    assert SEEN in seen.page.locator(".map .query").all_text_contents()
    assert seen.weight(1, 0).startswith(f"{SEEN} → a")
    assert seen.said == []
    seen.page.close()
