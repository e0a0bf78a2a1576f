"""Pieces of subword-nmt and sentencepiece, and their places in the line, are those of slow loops.

The steps that take text, pieces and model are tested too, as these must belong together.
"""

import importlib
import io
import re
import sys
from contextlib import redirect_stderr
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.learn_bpe import learn_bpe

from fairseq_posattn.errors import InputError
from fairseq_posattn.preparation.project import ProjectionInputs, project
from fairseq_posattn.preparation.segment import apply, learn_sentencepiece
from fairseq_posattn.text.segmenters import Segmentation, SentencePiece, SubwordNmt
from fairseq_posattn.trees.checks import flat_tree
from fairseq_posattn.trees.lines import read_trees
from support import reference_projection as reference
from support.files import write

TEXT = [
    "Hello world, this is ﬁne: ½ cup of ﬂour, №5 ㎏",
    "Die größte Straße führt im Öﬀentlichen nach İstanbul.",
    "我爱北京天安门。 他们在 2024 年来的。",
    "東京都に住んでいます。カタカナとひらがな、ﾊﾝｶｸ",
    "emoji 😀 👍🏽 👩‍👩‍👧 and ｆｕｌｌ　ｗｉｄｔｈ",
    "e\u0301 is é, in\u00adter, zero\u200bwidth, word\u2060joiner, a\u00a0b",
    "السلام عليكم ورحمة الله, нет, Σίσυφος",
]
LINES = [
    *TEXT,
    *("", " ", "\u3000", "\u200b", "\u00a0\u2028", "  two  spaces  ", "\tx\ty ", "ﬁ", "ﬁne½"),
    *("½½ ﬁﬂ", "①Ⅳ㎏ﷺ x", "x\u3000\u3000y　", "a\u200bb \u200b c\ufeffd", "\ufeffx", "가각 가"),
    *("👩‍👩‍👧‍👦👍🏽🇩🇪", "10␣000 ␣x␣", "x\x85y\u2028z\x1cw\x0bv\x7fu\x01", "ǅ ŉ ẚ İ"),
    *("a<unk>b <s> ▁x▁ y▁ ▁", "@@ x@@y @", "x" * 300),
]
RULES = {  # of sentencepiece: kind, normalisation
    "unigram": ("unigram", "nmt_nfkc"),
    "bpe": ("bpe", "nmt_nfkc"),
    "folded": ("unigram", "nmt_nfkc_cf"),
    "identity": ("bpe", "identity"),
    "bytes": ("unigram", "nfkc"),
}
LETTERS = st.characters(codec="utf-8", exclude_categories=["Cs"])
CHARACTERS = LETTERS | st.sampled_from("".join(TEXT)) | st.sampled_from(" \u00a0\u3000\u200b␣▁ﬁ½")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Learn merges, and a sentencepiece model for each of RULES; return their folder."""
    folder = tmp_path_factory.mktemp("segmenters")
    text = [f"{line} {k}" for k in range(20) for line in TEXT]
    with open(folder / "merges", "w") as merges, redirect_stderr(io.StringIO()):
        learn_bpe([f"{line}\n" for line in text], merges, 120)
    for name, (kind, rule) in RULES.items():
        exact = {"remove_extra_whitespaces": False} if name == "identity" else {}
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_prefix=str(folder / name),
            model_type=kind,
            vocab_size=600,
            hard_vocab_limit=False,
            byte_fallback=name == "bytes",
            normalization_rule_name=rule,
            num_threads=1,
            minloglevel=2,
            **exact,
        )
    return folder


@pytest.fixture(params=[*RULES, "merges"], scope="module")
def segmenter(request, models):
    if request.param == "merges":
        return SubwordNmt(Segmentation(str(models / "merges")))
    return SentencePiece(str(models / f"{request.param}.model"))


# Spans.


def by_surfaces(processor, line: str) -> list[reference.Span]:
    """Each piece where what it stands for in the line comes next; what lies between is in none."""
    found, end = [], 0
    for piece in processor.encode(line, return_type="proto").pieces:
        begin = line.index(piece.surface, end)
        end = begin + len(piece.surface)
        found.append((len(reference.dense(line[:begin])), len(reference.dense(line[:end]))))
    return found


def slow_spans(segmenter, line: str) -> list[reference.Span]:
    """Of subword-nmt: its pieces spell the line."""
    if isinstance(segmenter, SentencePiece):
        return by_surfaces(segmenter.processor, line)
    return reference.subword_nmt_spans(line, segmenter.segment(line))


def check(segmenter, line: str) -> None:
    pieces, spans = segmenter.segment(line), segmenter.spans(line)
    assert " ".join(pieces).split() == pieces, repr(line)  # as fairseq reads them
    assert len(spans) == len(pieces), repr(line)
    expected = slow_spans(segmenter, line)
    for k, (found, slow) in enumerate(zip(spans, expected, strict=True)):
        if slow[0] < slow[1]:
            assert found == slow, (line, pieces, k)
        else:  # without characters: anywhere between its neighbours
            assert found[0] == found[1]
    assert all(a[1] <= b[0] for a, b in pairwise(spans)), repr(line)
    assert all(0 <= a <= b <= len(reference.dense(line)) for a, b in spans), repr(line)


def test_spans(segmenter):
    for line in LINES:
        check(segmenter, line)


@settings(max_examples=150)
@given(line=st.text(CHARACTERS, max_size=25))
def test_spans_of_any_line(segmenter, line):
    check(segmenter, line.replace("\n", " ").replace("@", "a"))


def test_whitespace_within_pieces(models):
    """A model may keep it; the line of pieces may not."""
    segmenter = SentencePiece(str(models / "identity.model"))
    line = "a\u00a0b\u3000\u2028c"
    raw = segmenter.processor.encode(line, out_type=str)
    assert any(character.isspace() for piece in raw for character in piece)
    pieces = segmenter.segment(line)
    assert not any(character.isspace() for piece in pieces for character in piece)
    assert "".join(pieces) == "▁a␣b␣␣c"


def test_a_word_that_ends_in_the_separator(tmp_path):
    """A merge must have made a piece of it, to be taken for another one."""
    (tmp_path / "merges").write_text("#version: 0.2\n@ @</w>\nx @@</w>\n")
    segmenter = SubwordNmt(Segmentation(str(tmp_path / "merges")))
    assert segmenter.segment("y@@ x@@y") == ["y@@", "@@", "x@@", "@@@", "@@@", "y"]
    for line in ("x@@ y", "y x@@", "@@"):
        with pytest.raises(InputError, match=f"'{line}' contains a word that ends in the piece"):
            segmenter.spans(line)
        text, out = write(tmp_path / "text", ["y", line]), tmp_path / "pieces"
        with pytest.raises(InputError, match=f"^{text}:2: '{line}' contains a word that"):
            apply(segmenter, str(text), str(out))
        assert not out.exists()


@pytest.mark.parametrize("k", range(len(LINES)))
def test_join(segmenter, k):
    line = LINES[k]
    joined = segmenter.join(" ".join(segmenter.segment(line)))
    if isinstance(segmenter, SentencePiece):
        normal = segmenter.processor.normalize(line).replace("▁", " ")
        expected = "".join("␣" if c.isspace() and c != " " else c for c in normal).strip(" ")
        if "<0x" not in joined:
            assert joined == expected
    elif "@@" not in line:
        assert joined == " ".join(line.split())


# Trees on the pieces of a text.


class Files:
    """The files of a projection: as many lines as the lists have."""

    def __init__(self, folder: Path, models: Path):
        self.folder, self.models = folder, models
        self.out = str(folder / "trees")

    def write(self, name: str, lines: list[str]) -> str:
        return str(write(self.folder / name, lines))

    def make(self, lines: list[str], words: list[list[str]], trees: list[list[int]], model: str):
        """Files that belong together."""
        text = self.write("text", lines)
        given = self.write("words", [" ".join(of_line) for of_line in words])
        heads = self.write("parents", [" ".join(map(str, tree)) for tree in trees])
        path = str(self.models / f"{model}.model")
        apply(SentencePiece(path), text, str(self.folder / "pieces"))
        return ProjectionInputs(given, heads, str(self.folder / "pieces"), text, path)


@pytest.fixture
def files(tmp_path, models) -> Files:
    return Files(tmp_path, models)


@pytest.mark.parametrize("model", ["unigram", "bpe"])
def test_trees_on_pieces(files, models, model):
    lines = [line for line in LINES if line.split() and "␣" not in line]
    words = [line.split() for line in lines]
    trees = [flat_tree(len(of_line)) for of_line in words]
    project(files.make(lines, words, trees, model), files.out)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(models / f"{model}.model"))
    expected = []
    for line, of_line, tree in zip(lines, words, trees, strict=True):
        spans = reference.word_spans(of_line)
        expected.append((tree, reference.project(tree, spans, by_surfaces(processor, line))))
    found = [(list(tree), list(counts)) for tree, counts, _ in read_trees(files.out)]
    assert found == expected


GOOD = (
    ["Hello world.", "我爱北京。", "x ﬁne ½"],
    [["Hello", "world", "."], ["我", "爱北京。"], ["x", "ﬁne", "½"]],
)
TREES = [[2, 0, 2], [2, 0], [0, 1, 1]]


def spoil(inputs: ProjectionInputs, name: str) -> None:
    """The second line of one of the files; its pieces stay as many."""
    path = Path(getattr(inputs, name))
    lines = path.read_text().split("\n")
    other = {"words": "你 爱北京。", "text": "他们在北京。", "parents": "0 1 2"}
    lines[1] = other.get(name, " ".join(reversed(lines[1].split(" "))))
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        (
            "words",
            "text:2",
            "character 1 (without spaces) is '我' in the text and '你' in the tree",
        ),
        ("pieces", "pieces:2", "segment the text again with this model"),
        ("text", "pieces:2", "differ from the segmentation of '他们在北京。'"),
        ("parents", "parents:2", "the line has parents of 3 words, but the same"),
    ],
)
def test_files_that_do_not_belong_together(files, name, where, message):
    inputs = files.make(*GOOD, TREES, "unigram")
    project(inputs, files.out)
    Path(files.out).unlink()
    spoil(inputs, name)
    with pytest.raises(InputError) as error:
        project(inputs, files.out)
    assert str(error.value).startswith(f"{files.folder}/{where}: ")
    assert message in str(error.value)
    assert not Path(files.out).exists()


def test_not_a_model(files):
    inputs = files.make(*GOOD, TREES, "unigram")
    for path in (inputs.text, str(files.folder / "nowhere")):
        other = ProjectionInputs(*inputs.files, path)
        with pytest.raises(InputError, match=f"{path}: cannot load a sentencepiece model"):
            project(other, files.out)


def script(name: str):
    """Return the function of a command, whose errors are raised."""
    module = importlib.import_module(f"fairseq_posattn.cli.{name}")

    def call(*arguments) -> None:
        with mock.patch.object(sys, "argv", [name, *map(str, arguments)]):
            module.main()

    return call


def test_the_commands(files, models):
    """Learn, apply, project, as their help says."""
    inputs = files.make(*GOOD, TREES, "unigram")
    text = files.write("training", [f"{line} {k}" for k in range(99) for line in TEXT])
    model, pieces = files.folder / "model", files.folder / "new.pieces"
    for kind in ("unigram", "bpe"):
        options = ("--sentencepiece", model, "--symbols", 130, "--model-type", kind)
        script("segment")("learn", text, *options)
        assert 100 < sentencepiece.SentencePieceProcessor(model_file=str(model)).vocab_size() <= 130
    script("segment")("apply", inputs.text, "--sentencepiece", model, "--out", pieces)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    expected = [" ".join(processor.encode(line, out_type=str)) for line in GOOD[0]]
    assert pieces.read_text().splitlines() == expected
    given = ("--words", inputs.words, "--parents", inputs.parents, "--pieces", pieces)
    script("project")(*given, "--sentencepiece", model, "--text", inputs.text)
    counts = [sum(found) for _, found, _ in read_trees(f"{pieces}.trees")]
    assert counts == [len(line.split()) for line in expected]


def test_learning_that_cannot_work(files):
    text, model = files.write("training", ["ab"] * 9), str(files.folder / "model")
    for kind, symbols, message in (
        (
            "unigram",
            5000,
            "training: the text has too few .* for --symbols 5000; give at most --symbols 7",
        ),
        ("bpe", 5, "--symbols 5 is too small for .*; give at least --symbols 6, or a lower --cha"),
        ("bpe", 1, "sentencepiece cannot learn from the text .*; change --symbols"),
    ):
        with pytest.raises(InputError, match=message) as error:
            learn_sentencepiece([text], model, symbols, kind)
        if found := re.search(r"at (?:most|least) --symbols (\d+)", str(error.value)):
            learn_sentencepiece([text], f"{model}.{kind}", int(found[1]), kind)  # the advice works
    with pytest.raises(InputError, match="no sentences to learn pieces from; give more text"):
        learn_sentencepiece([files.write("empty", ["", ""])], model, 50)
    assert not Path(model).exists()


def test_a_vocabulary_is_of_subword_nmt(files, models):
    options = ("--sentencepiece", models / "bpe.model", "--out", files.out)
    text = files.write("text", ["a"])
    with pytest.raises(InputError, match="--vocabulary cannot be combined with --sentencepiece"):
        script("segment")("apply", text, *options, "--vocabulary", text)
