"""New text and data that prepare.py made: prepared by the same choices, parsed while translated."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import sacremoses
from fairseq.data import Dictionary

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.structured_translation import StructuredTranslationTask
from fairseq_posattn.text.live import line_trees
from fairseq_posattn.text.live import parser_process as live
from fairseq_posattn.text.live.parser_process import LiveParser
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.stanza_parser import StanzaParser
from fairseq_posattn.trees import Parsed, TreeError
from fairseq_posattn.trees.conllu import read_conllu
from support.commands import FULL_TREE, PATIENCE, ROOT
from support.files import lines_of
from support.in_process import call, hub, translating
from support.processes import children, is_alive
from support.raw_corpus import KINDS, LANGUAGES, SIZES, Corpus, prepare
from support.reference import depths as reference_depths

pytest.importorskip("stanza")

TOGETHER = ("--buffer-size", "10", "--batch-size", "4")
STANZA = [kind for kind in KINDS if kind.endswith("stanza")]


class Translated(NamedTuple):
    """What a program printed: number -> text after the tag."""

    output: str

    def lines(self, tag: str) -> list[str]:
        """Return the lines in the order of the sentences, which is not that of the output."""
        found = re.findall(rf"^{tag}-(\d+)(?:\t(.*))?$", self.output, re.M)
        return [text for _, text in sorted(found, key=lambda pair: int(pair[0]))]

    @property
    def sources(self) -> list[str]:
        return self.lines("S")

    @property
    def trees(self) -> list[str]:
        found = re.findall(r"^TREE-(\d+)\t(.*)$", self.output, re.M)
        numbers = sorted({int(number) for number, _ in found})
        return [[text for n, text in found if int(n) == number] for number in numbers]

    @property
    def hypotheses(self) -> list[str]:
        return [text.split("\t")[1] for text in self.lines("H")]

    @property
    def scores(self) -> list[float]:
        return [float(text.split("\t")[0]) for text in self.lines("H")]

    @property
    def detokenized(self) -> list[str]:
        return [text.split("\t")[1] for text in self.lines("D")]


def interactive(corpus, kind: str, text: list[str], *options, model="tree", data=None, **kwargs):
    """fairseq-interactive, told nothing of how the text is to be prepared."""
    common = translating(data or corpus.data(kind), corpus.model(kind, model))
    lines = "".join(f"{line}\n" for line in text)
    result = call("interactive", *common, *LANGUAGES, *TOGETHER, *options, input=lines, **kwargs)
    return result if kwargs.get("check") is False else Translated(result.output)


def generate(corpus, kind: str, *options, model="tree", data=None) -> Translated:
    common = translating(data or corpus.data(kind), corpus.model(kind, model))
    return Translated(call("generate", *common, *LANGUAGES, "--batch-size", 7, *options).output)


def same(left: Translated, right: Translated) -> bool:
    """Return whether the translations are equal.

    Pieces must be equal, and scores but for rounding: other batches make other sums.
    """
    assert len(left.sources) > 1
    assert left.sources == right.sources
    assert len(left.hypotheses) == len(left.sources)
    assert left.scores == pytest.approx(right.scores, abs=1e-3)
    return left.hypotheses == right.hypotheses


def raw_test(corpus: Corpus) -> list[str]:
    return lines_of(corpus.folder / "raw/test.de")


def parsed_test(corpus: Corpus, kind: str) -> Path:
    return Path(f"{corpus.data(kind)}.work/test.conllu.xz")


# Raw text, as the test set was prepared.


def parsed_text(corpus: Corpus, kind: str) -> Path:
    return Path(f"{corpus.data(kind)}.work/test.text.de")


def drawn_trees(path: Path) -> list[list[str]]:
    found = []
    for sentence in read_conllu(path):
        names = []
        counts = sentence.words_of_token or [1] * len(sentence.tokens)
        for token, count in zip(sentence.tokens, counts, strict=True):
            names += [token] if count == 1 else [f"{token}/{k + 1}" for k in range(count)]
        depths = reference_depths(sentence.parents)
        found.append([f"{d}\t{'  ' * d}{name}" for d, name in zip(depths, names, strict=True)])
    return found


def joined(pieces: str, kind: str) -> str:
    """Return the text of a translation."""
    if kind.startswith(("unigram", "bpe")):
        return pieces.replace(" ", "").replace("▁", " ").strip()
    text = f"{pieces} ".replace("@@ ", "").strip()
    if kind == "spaces":
        return text
    return sacremoses.MosesDetokenizer("en").detokenize(text.split(), unescape=False)


@pytest.mark.long(ci=["stanza"])
@pytest.mark.parametrize("kind", KINDS)
def test_raw_sentences(corpus, asked, kind):
    found = interactive(corpus, kind, raw_test(corpus), "--print-tree")
    assert asked
    assert same(found, generate(corpus, kind))
    known = set(Dictionary.load(str(corpus.data(kind) / "dict.de.txt")).symbols)
    lines = lines_of(Path(f"{corpus.data(kind)}.work/test.clean.de"))
    assert found.sources == [
        " ".join(piece if piece in known else "<unk>" for piece in line.split()) for line in lines
    ]
    assert found.trees == drawn_trees(parsed_test(corpus, kind))
    assert found.detokenized == [joined(pieces, kind) for pieces in found.hypotheses]
    assert len(set(found.hypotheses)) > SIZES["test"] / 8  # else the test would say little
    assert any("/2" in word for tree in found.trees for word in tree) == (kind in STANZA)


@pytest.mark.long(ci=["moses"])
@pytest.mark.parametrize("kind", ["stanza", "moses", "unigram-stanza"])
def test_a_model_without_trees(corpus, asked, kind):
    """It needs the parser only for the words, and only if the pieces are pieces of these words."""
    found = interactive(corpus, kind, raw_test(corpus), model="sequence")
    assert same(found, generate(corpus, kind, model="sequence"))
    assert {what for what, _ in asked} == ({"tokenize"} if kind == "stanza" else set())


@pytest.mark.long(but=["stanza"])
@pytest.mark.parametrize("kind", ["stanza", "bpe-moses"])
def test_from_python(corpus, asked, kind):
    model = loaded(corpus, kind)
    found = model.translate(raw_test(corpus), beam=2)
    assert found == interactive(corpus, kind, raw_test(corpus)).detokenized
    assert model.translate(raw_test(corpus)[5], beam=2) == found[5]


def loaded(corpus, kind: str, **options):
    return hub(corpus.model(kind), corpus.data(kind), **options)


def test_from_python_with_trees_and_their_words(corpus, asked):
    """Also of im = in + dem, and of lines that sentencepiece cuts as they are."""
    for kind in ("stanza", "unigram-stanza"):
        model = loaded(corpus, kind)
        sentences = list(read_conllu(parsed_test(corpus, kind)))
        trees = [Parsed(s.tokens, s.parents, s.words_of_token) for s in sentences]
        expected = model.translate(raw_test(corpus), beam=2)
        asked.clear()
        assert model.translate(raw_test(corpus), beam=2, trees=trees) == expected
        assert {what for what, _ in asked} == ({"tokenize"} if kind == "stanza" else set())
        if kind == "stanza":  # parents alone are those of the tokens, as in training
            chosen = [k for k, sentence in enumerate(sentences) if not sentence.multiword]
            lines, parents = zip(
                *((raw_test(corpus)[k], sentences[k].parents) for k in chosen), strict=True
            )
            found = model.translate([*lines], beam=2, trees=[*parents])
            assert found == model.translate([*lines], beam=2) and len(found) > 5
    with pytest.raises(TreeError, match="text and tree do not match"):
        model.translate([raw_test(corpus)[0]], trees=[Parsed(["other"], [0])])
    with pytest.raises(TreeError, match="got 2 parents for the 1 words"):
        model.translate([raw_test(corpus)[0]], trees=[Parsed(["other"], [0, 1])])


@pytest.mark.long
def test_from_python_with_bpe_of_its_own(corpus, asked):
    codes = str(corpus.data("moses") / "segmenter")
    model = loaded(corpus, "moses", bpe="subword_nmt", bpe_codes=codes, missing_tree="flat")
    assert model.encode("„Hund”").tolist() != loaded(corpus, "moses").encode("„Hund”").tolist()
    assert model.apply_bpe("Hund,") == model.bpe.encode("Hund,")
    model.translate(raw_test(corpus)[:2])
    assert asked == []


# Options that say otherwise.


@pytest.mark.long(but=["moses"])
@pytest.mark.parametrize("kind", ["stanza", "moses"])
def test_bpe_switches_the_preparation_off(corpus, asked, kind):
    bpe = ("--bpe", "subword_nmt", "--bpe-codes", corpus.data(kind) / "segmenter")
    parser = ("--tree-provider", "stanza", "--parser-dir", corpus.models)
    words = [" ".join(s.tokens) for s in read_conllu(parsed_test(corpus, kind))]
    longest = max(range(len(words)), key=lambda k: len(words[k]))
    found = interactive(corpus, kind, words, *bpe, *parser, "--parser-tokenized")
    if kind == "moses":  # but for the length from which on a sentence is cut: that is a choice
        expected = generate(corpus, kind)
        assert found.sources == expected.sources
        for k in set(range(len(words))) - {longest}:
            assert found.hypotheses[k] == expected.hypotheses[k]
    joined_only = [f"{text} ".replace("@@ ", "").strip() for text in found.hypotheses]
    assert found.detokenized == joined_only
    result = interactive(corpus, kind, raw_test(corpus), *bpe, check=False)
    assert "has no tree; choose a tree provider" in str(result.error)
    raw = interactive(corpus, kind, raw_test(corpus), *bpe, "--missing-tree", "flat")
    assert raw.sources != generate(corpus, kind).sources


@pytest.mark.long(but=["moses"])
@pytest.mark.parametrize("kind", ["stanza", "moses", "unigram-stanza"])
def test_a_tree_file(corpus, asked, kind):
    """The trees come from the file, the pieces from the choices of the data."""
    options = ("--tree-file", parsed_test(corpus, kind), "--print-tree")
    found = interactive(corpus, kind, raw_test(corpus), *options)
    assert same(found, generate(corpus, kind))
    assert found.trees == drawn_trees(parsed_test(corpus, kind))
    assert {what for what, _ in asked} == ({"tokenize"} if kind == "stanza" else set())


@pytest.mark.long(but=["stanza"])
@pytest.mark.parametrize("kind", ["stanza", "unigram-spaces"])
def test_no_provider(corpus, asked, kind):
    result = interactive(corpus, kind, raw_test(corpus), "--tree-provider", "none", check=False)
    assert "has no tree; choose a tree provider" in str(result.error)
    flat = ("--tree-provider", "none", "--missing-tree", "flat", "--print-tree")
    found = interactive(corpus, kind, raw_test(corpus), *flat)
    assert found.sources == generate(corpus, kind).sources
    for tree, parsed in zip(found.trees, read_conllu(parsed_test(corpus, kind)), strict=True):
        first, *others = parsed.tokens
        assert tree == [f"0\t{first}", *(f"1\t  {word}" for word in others)]
    assert {what for what, _ in asked} == ({"tokenize"} if kind == "stanza" else set())


@pytest.fixture(scope="session")
def moved_models(corpus, tmp_path_factory) -> Path:
    return Path(shutil.copytree(corpus.models, tmp_path_factory.mktemp("moved") / "models"))


def without_models(corpus, kind: str, folder: Path) -> Path:
    """The data of a machine where the models lie elsewhere."""
    data = Path(shutil.copytree(corpus.data(kind), folder / "data"))
    about = json.loads((data / "prepare.json").read_text())
    about["parser"]["model_dir"] = str(folder / "nowhere")
    del about["model_dir_from_here"]  # else the copy finds the models beside the corpus
    (data / "prepare.json").write_text(json.dumps(about))
    return data


@pytest.mark.long
def test_models_that_lie_elsewhere(corpus, asked, moved_models, tmp_path):
    data = without_models(corpus, "stanza", tmp_path)
    result = interactive(corpus, "stanza", raw_test(corpus), data=data, check=False)
    assert isinstance(result.error, InputError)
    for part in ("no stanza model for 'de'", str(tmp_path / "nowhere"), "--parser-dir"):
        assert part in str(result.error)
    options = ("--parser-dir", moved_models)
    found = interactive(corpus, "stanza", raw_test(corpus), *options, data=data)
    assert same(found, generate(corpus, "stanza"))


@pytest.mark.long(ci=True)
def test_given_trees_need_a_tree_file(corpus, asked, tmp_path):
    """Data whose trees were made elsewhere: no parser is taken unasked."""
    options = corpus.options(*KINDS["spaces"], "--parser", "conllu", raw="tidy")
    prepare(*options, "--out", tmp_path / "data")
    model = tmp_path / "run"
    from support.in_process import train

    train(tmp_path / "data", model, *LANGUAGES, *FULL_TREE, "--max-update", "20")
    common = [*translating(tmp_path / "data", model / "checkpoint_last.pt"), *LANGUAGES]
    lines = "".join(f"{line}\n" for line in lines_of(corpus.folder / "tidy/test.de"))
    result = call("interactive", *common, input=lines, check=False)
    assert "has no tree; choose a tree provider" in str(result.error)
    trees = ("--tree-file", corpus.folder / "tidy/test.conllu", "--print-tree")
    found = Translated(call("interactive", *common, *trees, input=lines).output)
    expected = Translated(call("generate", *common, "--batch-size", 7).output)
    assert same(found, expected)
    assert found.trees == drawn_trees(corpus.folder / "tidy/test.conllu")
    assert asked == []


# Batches.


def test_batches_are_parsed_together(corpus, asked):
    """Batches are smaller than the requests to the parser, which get the lines of a buffer."""
    lines = raw_test(corpus)
    found = interactive(corpus, "stanza", lines)
    assert [(what, len(given)) for what, given in asked] == [
        (what, size) for size in (10, 10, 4) for what in ("tokenize", "parse")
    ]
    alone = interactive(corpus, "stanza", lines, "--buffer-size", "1", "--batch-size", "1")
    assert same(found, alone)


def test_the_next_batch_is_parsed_while_this_one_is_translated(corpus, asked, monkeypatch):
    """The first of three is not translated before the parser was asked for the second, and so on;
    were it asked only then, each would wait for the other."""
    translated = StructuredTranslationTask.inference_step
    order, changed = [], threading.Condition()

    def happened(what: str) -> None:
        with changed:
            order.append(what)
            changed.notify_all()

    ask = LiveParser.ask

    def noted_ask(self, what, lines):
        if what == "parse":
            happened("parse")
        return ask(self, what, lines)

    def noted_translation(self, *args, **kwargs):
        wanted = min(order.count("translated") + 2, 3)
        with changed:
            assert changed.wait_for(lambda: order.count("parse") >= wanted, timeout=PATIENCE)
        found = translated(self, *args, **kwargs)
        happened("translated")
        return found

    monkeypatch.setattr(line_trees, "PARSED_TOGETHER", 1)
    monkeypatch.setattr(LiveParser, "ask", noted_ask)
    monkeypatch.setattr(StructuredTranslationTask, "inference_step", noted_translation)
    interactive(corpus, "stanza", raw_test(corpus)[:10])
    assert order.index("translated") > 1
    assert sorted(order) == ["parse"] * 3 + ["translated"] * 3


def test_what_goes_wrong_ahead_is_told_in_its_turn(corpus, asked, monkeypatch):
    """The lines before are translated, and nobody tries it again."""
    ask = LiveParser.ask

    def failing_ask(self, what, lines):
        if what == "tokenize" and len(lines) == 4:  # the third buffer
            raise InputError("no more memory")
        return ask(self, what, lines)

    monkeypatch.setattr(LiveParser, "ask", failing_ask)
    result = interactive(corpus, "stanza", raw_test(corpus), check=False)
    assert str(result.error) == "no more memory"
    assert result.output.count("\nH-") == 20
    assert [len(given) for what, given in asked if what == "tokenize"] == [10, 10]


def test_empty_lines(corpus, asked):
    lines = raw_test(corpus)[:4]
    empty = ["", lines[0], " \u3000 ", lines[1], lines[2], "", lines[3]]
    for kind in ("stanza", "unigram-spaces"):
        found = interactive(corpus, kind, empty, "--print-tree")
        alone = interactive(corpus, kind, lines, "--print-tree")
        full = [1, 3, 4, 6]
        assert [found.hypotheses[k] for k in full] == alone.hypotheses
        assert [found.sources[k] for k in (0, 2, 5)] == [""] * 3
        assert found.trees == alone.trees


def test_a_long_line(corpus, asked):
    """It is parsed in parts, as in training."""
    lines = [" ".join(raw_test(corpus)), raw_test(corpus)[0]]
    found = interactive(corpus, "moses", lines, "--print-tree")
    assert len(found.trees[0]) > 150
    assert found.trees[1] == drawn_trees(parsed_test(corpus, "moses"))[0]


@pytest.mark.long(ci=["spaces"])
@pytest.mark.parametrize("kind", ["spaces", "unigram-stanza"])
def test_long_lines_that_were_skipped_in_training(corpus, asked, tmp_path, kind):
    """They got flat trees there."""
    data = tmp_path / "data"
    prepare(*corpus.options(*KINDS[kind], "--long-lines", "skip", "--out", data))
    found = interactive(corpus, kind, raw_test(corpus), "--print-tree", data=data)
    assert same(found, generate(corpus, kind, data=data))
    assert found.scores != pytest.approx(generate(corpus, kind).scores, abs=1e-3)
    lengths = [len(tree) for tree in found.trees]
    longest = found.trees[lengths.index(max(lengths))]
    assert [line[0] for line in longest] == ["0"] + ["1"] * (len(longest) - 1)


@pytest.fixture
def failing(corpus, monkeypatch) -> str:
    """A word that the parser fails on, but not for the shared data and model."""
    corpus.model("moses")
    trees = StanzaParser.trees

    def fail(self, sentences):
        if any("Kindball" in str(sentence) for sentence in sentences):
            raise RuntimeError("cannot")
        return trees(self, sentences)

    monkeypatch.setattr(StanzaParser, "trees", fail)
    return "Kindball"


def test_lines_that_the_parser_fails_on(corpus, asked, failing):
    lines = raw_test(corpus)
    result = interactive(corpus, "moses", lines, check=False)
    assert isinstance(result.error, InputError)
    message = r"sentence [1-9]\d*: the parser failed \(RuntimeError: cannot\) on .*Kindball"
    assert re.search(message, str(result.error)) and "--missing-tree flat" in str(result.error)
    found = interactive(corpus, "moses", lines, "--missing-tree", "flat", "--print-tree")
    others = drawn_trees(parsed_test(corpus, "moses"))
    assert any(failing in line for line in lines)
    for line, tree, other in zip(lines, found.trees, others, strict=True):
        if failing in line:
            assert [word.strip() for word in tree] == [
                f"{min(k, 1)}\t{'  ' * min(k, 1)}{word.split()[-1]}".strip()
                for k, word in enumerate(other)
            ]
        else:
            assert tree == other


@pytest.mark.long
def test_lines_that_the_parser_failed_on_in_training(corpus, asked, failing, tmp_path):
    data = tmp_path / "data"
    prepare(*corpus.options(*KINDS["moses"], "--on-failure", "flat", "--out", data))
    found = interactive(corpus, "moses", raw_test(corpus), data=data)
    assert same(found, generate(corpus, "moses", data=data))


# Data without trees.


def without_trees(corpus, kind: str, folder: Path, *more: str) -> Path:
    ignored = shutil.ignore_patterns("*.tree.*", *more)
    return Path(shutil.copytree(corpus.data(kind), folder / "data", ignore=ignored))


@pytest.mark.long(but=["moses"])
@pytest.mark.parametrize("kind", ["spaces", "unigram-spaces", "moses"])
def test_generate_parses_what_has_no_trees(corpus, asked, tmp_path, kind):
    """In other batches than the data were, which may tip a near tie of the parser. Depths are
    printed, so another parent may show in the score alone."""
    found = generate(corpus, kind, "--print-tree", data=without_trees(corpus, kind, tmp_path))
    expected = generate(corpus, kind, "--print-tree")
    assert found.sources == expected.sources and len(found.sources) > 1
    differ = [
        k
        for k, score in enumerate(expected.scores)
        if found.trees[k] != expected.trees[k]
        or found.hypotheses[k] != expected.hypotheses[k]
        or found.scores[k] != pytest.approx(score, abs=1e-3)
    ]
    assert len(differ) <= 1
    assert "test.de-en.de has no trees, so its sentences are parsed now" in found.output
    assert max(len(given) for what, given in asked if what == "parse") == 7


@pytest.mark.long(but=["spaces"])
@pytest.mark.parametrize("kind", ["spaces", "unigram-spaces", "bpe-moses"])
def test_flat_trees_of_data_without_trees(corpus, asked, tmp_path, kind):
    """Words end where pieces say so, of either segmenter."""
    options = ("--tree-provider", "none", "--missing-tree", "flat", "--print-tree")
    found = generate(corpus, kind, *options, data=without_trees(corpus, kind, tmp_path))
    words = [text.split() for text in lines_of(parsed_text(corpus, kind))]
    for tree, (first, *others) in zip(found.trees, words, strict=True):
        assert [line.split("\t")[0] for line in tree] == ["0"] + ["1"] * len(others)
        if kind == "spaces":
            assert [line.split()[-1] for line in tree] == [first, *others]
    assert asked == []


def test_truncated_sources_without_trees(corpus, asked, tmp_path):
    data = without_trees(corpus, "spaces", tmp_path)
    options = ("--truncate-source", "--max-source-positions", "8")
    found = generate(corpus, "spaces", *options, data=data)
    assert max(len(source.split()) for source in found.sources) == 7
    assert any(source.endswith("@@") for source in found.sources)


@pytest.mark.long(but=["moses"])
@pytest.mark.parametrize("kind", KINDS)
def test_generate_prints_trees(corpus, kind):
    """Those of the data; the words are those that the pieces spell, or a dot."""
    found, expected = generate(corpus, kind, "--print-tree"), drawn_trees(parsed_test(corpus, kind))
    columns = [[line.split("\t") for line in tree] for tree in found.trees]
    wanted = [[line.split("\t") for line in tree] for tree in expected]
    for lines, others, source in zip(columns, wanted, found.sources, strict=True):
        assert [depth for depth, _ in lines] == [depth for depth, _ in others]
        words = [word for _, word in lines]
        assert [word.count("  ") for word in words] == [int(depth) for depth, _ in lines]
        spelled = "".join(words).replace(" ", "").replace("·", "")
        assert spelled == source.replace("@@ ", "").replace(" ", "").replace("▁", "")
    if kind in ("moses", "spaces"):
        assert found.trees == expected


# The parser's process.

FAKE = """
import os, sys, time

print("a library that talks")

class Pipeline:
    def __init__(self, *args, **kwargs):
        print("loading")
        os.write(1, b"more talk")
"""
WORDS = ParserSettings(tokenized=True)


@pytest.fixture
def quick_stanza(monkeypatch, tmp_path):
    """In the parser's process, a stanza that is loaded at once; words are cut at spaces."""
    (tmp_path / "stanza.py").write_text(FAKE)
    monkeypatch.syspath_prepend(tmp_path)


def tokens(lines) -> list[list[str]]:
    return [line.tokens for line in lines]


@pytest.mark.long
def test_killed_parser(quick_stanza):
    """It ends in an error, and another process starts the next time."""
    parser = LiveParser(WORDS)
    try:
        assert tokens(parser.tokenize(["a b", ""])) == [["a", "b"], []]
        assert parser.tokenize([]) == []
        first = parser.process.pid
        os.kill(first, signal.SIGKILL)
        with pytest.raises(InputError, match=r"the parser's process terminated \(exit code -9\)"):
            parser.tokenize(["c"])
        assert tokens(parser.tokenize(["d e"])) == [["d", "e"]]
        assert parser.process.pid != first
    finally:
        parser.stop()


def test_killed_while_it_answers(quick_stanza):
    """Half of an answer counts as none."""
    parser = LiveParser(WORDS)
    try:
        parser.start()
        os.kill(parser.process.pid, signal.SIGSTOP)
        reader, writer = os.pipe()
        os.write(writer, b"\x80\x04\x95\xff\x00")
        os.close(writer)
        with os.fdopen(reader, "rb") as half, mock.patch.object(parser.process, "stdout", half):
            os.kill(parser.process.pid, signal.SIGKILL)
            with pytest.raises(InputError, match=r"terminated \(exit code -9\)"):
                parser.tokenize(["a"])
    finally:
        if parser.process is not None:
            parser.stop()


@pytest.mark.long
def test_an_interrupted_question(quick_stanza):
    """Its answer is not taken for that to the next one."""
    parser = LiveParser(WORDS)
    try:
        assert tokens(parser.tokenize(["a"])) == [["a"]]
        with (
            mock.patch.object(live.pickle, "load", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            parser.tokenize(["b"])
        assert tokens(parser.tokenize(["c"])) == [["c"]]
    finally:
        parser.stop()


@pytest.mark.long
def test_a_fork_has_a_parser_of_its_own(quick_stanza):
    parser = LiveParser(WORDS)
    try:
        parser.tokenize(["a"])
        here = parser.process.pid
        child = os.fork()
        if child == 0:
            right = tokens(parser.tokenize(["b c"])) == [["b", "c"]] and parser.process.pid != here
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert tokens(parser.tokenize(["d"])) == [["d"]]
        assert parser.process.pid == here
    finally:
        parser.stop()


PROGRAM = """
import sys, time
from fairseq_posattn.text.live.parser_process import LiveParser
from fairseq_posattn.text.parsing.options import ParserSettings

parser = LiveParser(ParserSettings(tokenized=True))
parser.start()
print(parser.process.pid, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["ends", "killed", "interrupted"])
def test_the_parser_ends_with_the_program(how):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    parser = int(program.stdout.readline())
    assert is_alive(parser)
    if how == "ends":
        program.stdin.write("\n")
        program.stdin.flush()
    elif how == "killed":
        program.kill()
    else:
        os.killpg(program.pid, signal.SIGINT)  # as the keyboard does
    program.wait(PATIENCE)
    wait_for_end(parser)
    said = program.stderr.read()
    assert "fairseq_posattn/text/live/parser_process.py" not in said, said
    for pipe in (program.stdin, program.stdout, program.stderr):
        pipe.close()


def wait_for_end(process: int) -> None:
    end = time.monotonic() + PATIENCE
    while is_alive(process):
        assert time.monotonic() < end
        time.sleep(0.02)


class Running:
    """posattn interactive, with its real parser; lines go in one by one."""

    def __init__(self, corpus, kind: str, log: Path):
        program = "from fairseq_posattn.cli.fairseq_programs import interactive; interactive()"
        data, model = corpus.data(kind), corpus.model(kind)
        options = [data, "--task", "structured_translation", "--path", model, "--beam", "2"]
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, options), "--cpu"],
            stdin=subprocess.PIPE,
            stdout=open(log, "w"),  # noqa: SIM115
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
            text=True,
            cwd=ROOT,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def translate(self, number: int, line: str) -> str:
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        end = time.monotonic() + PATIENCE
        while f"P-{number}\t" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < end
            time.sleep(0.02)
        return Translated(self.log.read_text()).hypotheses[number]

    def parser(self) -> int:
        (found,) = children(self.process.pid)
        return found


@pytest.mark.long
def test_the_program(corpus, tmp_path):
    """Translates line by line, says clearly that its parser was killed, and leaves nothing."""
    with Running(corpus, "stanza", tmp_path / "log") as program:
        expected = generate(corpus, "stanza").hypotheses
        for k in range(2):
            assert program.translate(k, raw_test(corpus)[k]) == expected[k]
        os.kill(program.parser(), signal.SIGKILL)
        program.process.stdin.write("der Hund sah.\n")
        program.process.stdin.close()
        assert program.process.wait(PATIENCE) == 1
        last = (tmp_path / "log").read_text().splitlines()[-1]
        killed = "the parser's process terminated (exit code -9), perhaps because memory ran out; "
    assert killed in last


@pytest.mark.long
def test_generate_parses_in_a_worker(corpus, tmp_path):
    """With --num-workers, the parser belongs to the process that makes the batches."""
    data = without_trees(corpus, "spaces", tmp_path)
    expected = generate(corpus, "spaces")
    found = generate(corpus, "spaces", "--num-workers", "1", data=data)
    assert same(found, expected)
