"""The report: what its page holds, how it looks in a browser, and what it refuses."""

import base64
import copy
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from itertools import combinations, pairwise

import pytest

from fairseq_posattn.evaluation import report
from fairseq_posattn.evaluation.report_arcs import arcs_of, middles, offsets, tree_svg
from fairseq_posattn.evaluation.report_figures import looks, signed
from fairseq_posattn.evaluation.report_systems import read_systems
from fairseq_posattn.files import InputError
from fairseq_posattn.trees.drawing import depths

HOSTILE = "</script><img src=x onerror=alert(1)>&$x$"
BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def packed(layers, heads, pieces, weight):
    """Attention of weight(layer, head, query, key), from 0 to 255."""
    numbers = [
        weight(layer, head, query, key) % 256
        for layer in range(layers)
        for head in range(heads)
        for query in range(pieces)
        for key in range(pieces)
    ]
    sizes = {"layers": layers, "heads": heads, "queries": pieces, "keys": pieces}
    return {**sizes, "weights": base64.b64encode(bytes(numbers)).decode()}


def spread(layer, head, query, key):
    return 100 * layer + 20 * head + 3 * query + key


def example(number, words, parents, relations=None):
    return {
        "number": number,
        "words": words,
        "parents": parents,
        "depths": parents and depths(parents),
        "relations": relations,
        "pieces": [*words, "</s>"],
        "translation": f"translation {number} {HOSTILE}",
        "reference": "der Hund",
        "attention": packed(2, 3, len(words) + 1, spread),
    }


def bucket(first, last, bleu):
    return {"from": first, "to": last, "sentences": 1234, "bleu": bleu}


def scored(name="structural", test="newstest2014", better=0.0, baseline="sequence"):
    """What posattn-score writes, with everything in it."""
    scores = {"BLEU": 27 + better, "chrF2": 57 + better, "TER": 60 - better}
    about = {
        "version": 1,
        "system": name,
        "test": test,
        "source": "en",
        "target": "de",
        "sentences": 3003,
        "references": 1,
        "scores": {key: {"score": value, "signature": BLEU} for key, value in scores.items()},
        "ngrams": [],
        "buckets": {
            "length": [bucket(1, 10, 30 + better), bucket(51, None, 25 + better)],
            "depth": [bucket(0, 2, 30 + better), bucket(3, 3, 25 + better)],
            "split_words": [bucket(0, 0, 30 + better), bucket(1, 1, 25 + better)],
        },
        "speed": {
            "translation": {"sentences_per_second": 240.5 - better},
            "with_parsing": {"sentences_per_second": 120.5 - better},
        },
        "training": {
            "parameters": 65_000_000,
            "words_per_second": 8000.4,
            "curve": [
                {"update": 1000, "train_loss": 5.5, "valid_loss": None},
                {"update": 2000, "train_loss": None, "valid_loss": 5.1 - better},
                {"update": 3000, "train_loss": 4.5, "valid_loss": 4.6 - better},
            ],
        },
        "examples": [
            example(17, ["The", "dog", "barks", "."], [2, 3, 0, 3], ["det", "nsubj", "root", "p"]),
            example(3, [HOSTILE, "b"], [2, 0]),
            example(9, ["no", "tree"], None),
        ],
    }
    if baseline:
        difference = {"difference": better, "bootstrap_p": 0.0042, "mark": "⇑"}
        ngrams = [{"n": n, "bleu": 0.125 * n, "precision": -0.25 * n} for n in range(1, 9)]
        about["baseline"] = {"system": baseline, "scores": {"BLEU": difference}, "ngrams": ngrams}
    return about


def both():
    return [scored("sequence", baseline=None), scored(HOSTILE, better=1.25)]


@pytest.fixture
def write(tmp_path):
    def write(*abouts):
        paths = [tmp_path / f"{k}.json" for k in range(len(abouts))]
        for path, about in zip(paths, abouts, strict=True):
            path.write_text(about if isinstance(about, str) else json.dumps(about))
        return paths

    return write


@pytest.fixture
def page(write):
    return lambda *abouts, **options: report.page(read_systems(write(*abouts)), **options)


class Parsed(HTMLParser):
    """Elements with their attributes, and the text of table rows."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.rows, self.texts, self.inside = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if "script" not in self.inside[-1:] and "style" not in self.inside[-1:]:
            self.texts.append(data)
        if self.rows and {"td", "th"} & set(self.inside):
            self.rows[-1][-1] += data.strip() and f" {data.strip()}"

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def sections(self):
        return [attributes["id"] for attributes in self.all("section")]


EVERY = ["scores", "significance", "gaps", "buckets", "speed", "curves", "examples"]


def without(about, *keys):
    for key in keys:
        about.pop(key)
    return about


@pytest.mark.parametrize(
    ("abouts", "sections"),
    [
        (both(), EVERY),
        ([scored(baseline=None)], ["scores", "buckets", "speed", "curves", "examples"]),
        ([without(scored(), "examples", "speed", "buckets")], [*EVERY[:3], "curves"]),
        (
            [without(scored(), "examples", "speed", "buckets", "training", "baseline")],
            ["scores"],
        ),
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


def test_scores_of_each_test_set(page):
    """Aligned rows; the best is bold, of TER the lowest, and nothing where all are equal."""
    text = page(*both(), scored("sequence", "newstest2015", baseline=None))
    rows = [[cell.strip() for cell in row] for row in Parsed(text).rows]
    assert rows[0][:5] == ["system", "BLEU", "chrF2", "TER", "parameters"]
    assert rows[1] == ["newstest2014 3,003 sentences, 1 reference"]
    assert rows[2][1:5] == ["27.00", "57.00", "60.00", "65,000,000"]
    assert rows[3][:5] == [HOSTILE, "28.25 ⇑", "58.25", "58.75", "65,000,000"]
    assert rows[4][0].startswith("newstest2015")
    bold = re.findall(r"<b>(.*?)</b>", text)
    assert bold == ["240.5", "120.5", "28.25", "58.25", "58.75"]
    assert text.count(f"<code>{BLEU}</code>") == 3


def test_gaps_have_signs(page):
    rows = [[cell.strip() for cell in row] for row in Parsed(page(*both())).rows]
    assert [HOSTILE, "BLEU", "+0.12", "+0.25", "+0.38", "+0.50"] in [row[:6] for row in rows]
    assert [HOSTILE, "precision", "−0.25", "−0.50"] in [row[:4] for row in rows]
    assert any(row[2:5] == ["BLEU", "+1.25 ⇑", "0.004"] for row in rows)


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [(0.5, None, "+0.5"), (-2, None, "−2"), (0, None, "0"), (-0.001, 2, "0.00"), (1, 2, "+1.00")],
)
def test_signs(number, digits, text):
    assert signed(number, digits) == text


def test_same_bytes(page):
    assert page(*both()) == page(*copy.deepcopy(both()))


def test_hostile_text_is_text(page):
    about = scored(HOSTILE, HOSTILE, baseline=HOSTILE)
    about["scores"][HOSTILE] = {"score": 1, "signature": HOSTILE}
    parsed = Parsed(page(about, title=HOSTILE))
    assert parsed.all("img") == []
    assert len(parsed.all("script")) == 2
    assert "".join(parsed.texts).count(HOSTILE) > 10


def test_nothing_from_elsewhere(page):
    """No address but the names of namespaces; the page itself forbids more."""
    text = page(*both())
    assert set(re.findall(r"https?://[^\"\s]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "default-src 'none'" in text
    assert not [a for _, a in Parsed(text).elements if "src" in a]


def test_a_look_for_each_system(write):
    names = [f"system {k}" for k in range(12)]
    systems = read_systems(write(*(scored(n, baseline="system 3") for n in names)))
    found = looks(systems)
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


PATH = re.compile(r"M([\d.]+) ([\d.]+)V[\d.]+Q[\d.]+ ([\d.]+) .*Q([\d.]+) [\d.]+ [\d.]+")


def segments(parents, words):
    """x of the start, height, x of the end of each arc as it is drawn."""
    svg = tree_svg(words, parents, depths(parents), words)
    lines = re.findall(r'class="line" d="(M[^"]+Q[^"]+)"', svg)
    return [[float(number) for number in PATH.match(line).groups()] for line in lines]


@pytest.mark.parametrize("kind", ["two", "chain", "flat", "both sides"])
def test_drawn_arcs_do_not_cross(kind):
    """Of projective trees: no upright of one arc cuts the top of another."""
    parents = TREES[kind]
    words = [f"w{'o' * (k % 5)}rd" for k in range(len(parents))]
    found = segments(parents, words)
    assert len(found) == len(parents) - 1
    places = middles(words, arcs_of(parents), words)
    for arc, (start, _, _, end) in zip(arcs_of(parents), found, strict=True):
        assert end == pytest.approx(places[arc.child], abs=0.06)
        assert start == pytest.approx(places[arc.parent] + offsets(arcs_of(parents))[arc], abs=0.06)
    for one, other in combinations(found, 2):
        for (start, foot, top, end), (left, _, height, right) in ((one, other), (other, one)):
            for upright in (start, end):
                inside = min(left, right) < upright < max(left, right)
                assert not (inside and top < height < foot)


def test_words_do_not_touch():
    words = ["a", "Donaudampfschifffahrt", "東京都", ".", "b"]
    parents = [2, 0, 2, 2, 2]
    places = middles(words, arcs_of(parents), None)
    halves = [len(word) * (16 if word == "東京都" else 7) / 2 for word in words]
    for k in range(4):
        assert places[k] + halves[k] + 8 < places[k + 1] - halves[k + 1]


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
        ("{", "0.json: damaged .*posattn-score"),
        ("[]", r"0.json: the file: expected an object, found \[\]"),
        (damaged(version=2), "0.json: of version 2, not 1"),
        (damaged(version=None), "0.json: the key 'version' is missing"),
        (damaged(scores=None), "the key 'scores' is missing"),
        (damaged(scores__BLEU__score=None), "scores.BLEU: the key 'score' is missing"),
        (damaged(scores__BLEU__score="28"), "scores.BLEU.score: expected a number, found '28'"),
        (damaged(scores__BLEU__score=float("nan")), "expected a number, found nan"),
        (damaged(buckets__length__1__to="x"), r"buckets.length\[1\].to: expected a whole number"),
        (damaged(baseline__ngrams=3), "baseline.ngrams: expected a list, found 3"),
        (damaged(examples__0__words__1="\ud800"), r"examples\[0\].words\[1\]: expected text"),
        (damaged(examples__0__parents=[2, 3, 0]), r"examples\[0\]: 3 parents for 4 words"),
        (damaged(examples__0__parents=[2, 1, 0, 3]), r"examples\[0\]: a cycle: 1 -> 2 -> 1"),
        (damaged(examples__0__depths=[2, 1, 0, 2]), "depths are not those of the tree"),
        (damaged(examples__0__attention__heads=4), "150 weights instead of 200"),
        (damaged(examples__0__attention__keys=6), "attention of 2 x 3 x 5 x 6 for 5 pieces"),
        (damaged(examples__0__attention__weights="?"), "the weights are not base64"),
    ],
)
def test_refused(write, about, message):
    with pytest.raises(InputError, match=message):
        read_systems(write(about))


def test_one_system_twice(write):
    with pytest.raises(InputError, match=r"1\.json: the system 'a' .* again, after .*0\.json"):
        read_systems(write(scored("a"), scored("a")))


def test_without_a_name_the_file_s(write):
    assert [system.name for system in read_systems(write(scored("")))] == ["0"]


def test_without_matplotlib(page, monkeypatch):
    """Only figures need it."""
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"matplotlib: pip install 'fairseq_posattn\[plot\]'"):
        page(scored())
    assert page(without(scored(baseline=None), "buckets", "speed", "training"))


def test_command(write, tmp_path, monkeypatch, capsys):
    paths = [str(path) for path in write(*both())]
    arguments = ["report", *paths, "--out", str(tmp_path / "r.html"), "--title", "A & B"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == 0
    assert "<title>A &amp; B</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    write("{")
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"error: {paths[0]}: damaged")


# in a browser


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
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
        """What the tooltip says."""
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


@pytest.mark.parametrize("medium", ["screen", "print"])
def test_every_figure_is_seen(shown, medium):
    """And none is wider than the page."""
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


def test_choosing_draws_another_map(shown):
    seen = shown(scored())
    assert seen.options("sentence")[0] == "17: The dog barks ."
    assert (seen.options("layer"), seen.options("head")) == (
        ["0", "1"],
        ["mean", "0", "1", "2"],
    )
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


def test_the_scale(shown):
    """Darker means more; the largest weight of the map is named."""
    seen = shown(scored())
    seen.choose(layer=1, head=2)
    fills = [sum(map(int, re.findall(r"\d+", fill))) for fill in seen.fills()]
    weights = [spread(1, 2, query, key) for query in range(5) for key in range(5)]
    assert sorted(range(25), key=lambda k: -fills[k]) == sorted(range(25), key=lambda k: weights[k])
    assert seen.page.locator(".map .tick").all_text_contents()[-1] == f"{156 / 255:.2f}"


def test_weights_above_one(shown):
    about = scored()
    about["examples"][0]["attention"]["largest"] = 2.5
    seen = shown(about)
    seen.choose(layer=1, head=2)
    assert seen.weight(4, 4).endswith("1.53")


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
    assert "layer 0" in seen.page.inner_text("figcaption")
    assert seen.page.pdf(format="A4").startswith(b"%PDF")


def test_labels_of_long_sentences(shown):
    """Of 60 pieces: no label of the map lies on its neighbour."""
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
