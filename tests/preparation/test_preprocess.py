"""These tests run the steps from CoNLL-U to binary data as a user does."""

import subprocess
import sys
from itertools import islice, product
from pathlib import Path

import pytest

from support.commands import PATIENCE, ROOT
from support.files import lines_of, names

PROGRAMS = ROOT / "preprocess"
WORDS = ["house", "mouse", "houses", "tree", "trees", "10 000", "a\u00a0b", "x\u2028y", "é"]
TREES = {1: [0], 2: [2, 0], 3: [2, 0, 2], 4: [0, 4, 4, 1]}


def step(program, *arguments):
    command = [sys.executable, PROGRAMS / f"{program}.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def succeeds(program, *arguments):
    done = step(program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(program, *arguments):
    """The error, which is all that a failing step says on stderr."""
    done = step(program, *arguments)
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.split("\n") if line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


def block(words, parents):
    rows = enumerate(zip(words, parents, strict=True), start=1)
    lines = [f"{k}\t{word}\t_\t_\t_\t_\t{parent}\t_\t_\t_" for k, (word, parent) in rows]
    return "\n".join(["# a sentence", *lines, "", ""])


def conllu_text(sentences):
    """Sentences of changing length and words, the fifth of them empty."""
    blocks = []
    for k, (length, start) in enumerate(islice(product(TREES, range(len(WORDS))), sentences)):
        length = 0 if k == 4 else length
        words = [WORDS[(start + k) % len(WORDS)] for k in range(length)]
        blocks.append(block(words, TREES.get(length, [])))
    return "".join(blocks)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """All steps but the last: w.words, w.parents, codes, w.en, w.en.trees, and a target w.de."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "t.conllu").write_text(conllu_text(30), encoding="utf-8", newline="\n")
    succeeds("extract", folder / "t.conllu", "--out", folder / "w")
    words = folder / "w.words"
    succeeds("segment", "learn", words, words, "--codes", folder / "codes", "--symbols", 6)
    for language in ("en", "de"):
        succeeds(
            *("segment", "apply", words),
            *("--codes", folder / "codes", "--out", folder / f"w.{language}"),
        )
    succeeds(
        *("project", "--words", words, "--parents", folder / "w.parents"),
        *("--pieces", folder / "w.en"),
    )
    return folder


@pytest.fixture
def copy(prepared, tmp_path):
    """The prepared files, to be spoilt."""
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_extract_refuses(tmp_path):
    """Nothing is written, even of the files before the damaged one."""
    (tmp_path / "good.conllu").write_text(conllu_text(9), encoding="utf-8")
    (tmp_path / "bad.conllu").write_text(block(["a", "b"], [0, 0]))
    both = tmp_path / "good.conllu", tmp_path / "bad.conllu"
    error = fails("extract", *both, "--out", tmp_path / "w")
    assert "bad.conllu:3: the sentence has 2 roots (words 1, 2); correct the tree, or" in error
    assert names(tmp_path) == ["bad.conllu", "good.conllu"]


def test_nothing_to_learn(tmp_path):
    (tmp_path / "words").write_text("a b\n\nc\n")
    error = fails("segment", "learn", tmp_path / "words", "--codes", tmp_path / "codes")
    assert "no word has more than one character" in error
    assert names(tmp_path) == ["words"]


def test_vocabulary(prepared, tmp_path):
    """A piece that is not in the vocabulary, or too rare there, is split again."""
    (tmp_path / "vocabulary").write_text("h@@ 9\nous@@ 1\n")
    options = "--codes", prepared / "codes", "--out", tmp_path / "pieces"
    options = *options, "--vocabulary", tmp_path / "vocabulary"
    succeeds("segment", "apply", prepared / "w.words", *options)
    assert lines_of(tmp_path / "pieces")[0] == "h@@ ous@@ e"
    options = *options, "--vocabulary-threshold", "2"
    succeeds("segment", "apply", prepared / "w.words", *options)
    assert lines_of(tmp_path / "pieces")[0] == "h@@ o@@ u@@ s@@ e"
    (tmp_path / "vocabulary").write_text("h@@ 9\nou@@\n")
    error = fails("segment", "apply", prepared / "w.words", *options)
    assert "vocabulary:2: expected a piece and its count, found 'ou@@'" in error


def project(folder, *options):
    files = "--words", folder / "w.words", "--parents", folder / "w.parents"
    return "project", *files, "--pieces", folder / "w.en", *options


def replace_line(path, number, line):
    changed = lines_of(path)
    changed[number - 1] = line
    path.write_text("\n".join(changed) + "\n", encoding="utf-8", newline="\n")


SPOILT = [
    ("w.words", "other", "w.en:1: text and tree do not match, because character 1 "),
    ("w.en", "hou@@", "w.en:1: the last piece 'hou@@' ends with '@@'"),
    ("w.parents", "0 1", "w.parents:1: the line has parents of 2 words, but the same"),
    ("w.words", "house\nhouse", "w.words has 31 lines, "),
]


@pytest.mark.parametrize(("name", "line", "message"), SPOILT)
def test_project_refuses(copy, name, line, message):
    (copy / "w.en.trees").unlink()
    replace_line(copy / name, 1, line)
    before = names(copy)
    assert message in fails(*project(copy))
    assert names(copy) == before


def test_missing_tree_flat(copy):
    expected = lines_of(copy / "w.en.trees")
    replace_line(copy / "w.parents", 1, "-")
    replace_line(copy / "w.parents", 30, "-")
    succeeds(*project(copy, "--missing-tree", "flat", "--out", copy / "flat"))
    flat = lines_of(copy / "flat")
    assert flat[:29] == expected[:29]
    assert [token.split(":")[0] for token in flat[29].split()] == ["0", "1", "1", "1"]


def binarize(folder, *options):
    languages = "--source-lang", "en", "--target-lang", "de", "--joined-dictionary"
    return "binarize", *languages, "--destdir", folder / "data", *options


@pytest.mark.long
def test_binarize(copy):
    prefix = copy / "w"
    valid = f"{prefix},{prefix}"
    succeeds(*binarize(copy, "--trainpref", prefix, "--validpref", valid, "--workers", 2))
    expected = {"preprocess.log", "checksums.json", "dict.en.txt", "dict.de.txt"}
    for split in ("train", "valid", "valid1"):
        expected |= {f"{split}.en-de.{lang}.{end}" for lang in ("en", "de") for end in ENDS}
        expected |= {f"{split}.en-de.en.tree.{end}" for end in ENDS}
    assert set(names(copy / "data")) == expected
    assert not list(copy.glob(".*"))


ENDS = "bin", "idx"
SPOILT_DATA = [
    ("w.en.trees", "0:9", "w.en.trees:1: the tree has 9 pieces, "),
    ("w.en.trees", "1:1", "w.en.trees:1: the sentence has no root"),
    ("w.en", "one\ntwo", "w.en has 31 lines, "),
    ("w.en.trees", "0:1\n0:1", "w.en.trees has 31"),
    ("w.de", "a\rb", "w.de:1: the line contains a carriage return"),
]


def fails_here(capsys, folder, *options):
    """Like `fails`, in this process: fairseq takes seconds to import."""
    from fairseq_posattn.files.command_line import run
    from fairseq_posattn.preparation import binarize as preparation

    arguments = list(map(str, binarize(folder, *options)[1:]))
    with pytest.raises(SystemExit) as stopped:
        run(lambda: preparation.binarize(preparation.parser().parse_args(arguments)))
    assert stopped.value.code == 1
    return capsys.readouterr().err


@pytest.mark.parametrize(("name", "line", "message"), SPOILT_DATA)
def test_binarize_refuses(copy, capsys, name, line, message):
    replace_line(copy / name, 1, line)
    before = names(copy)
    assert message in fails_here(capsys, copy, "--trainpref", copy / "w")
    assert names(copy) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dataset-impl", "raw"), "--dataset-impl raw is not supported; omit"),
        (("--target-lang", ""), "a language is missing"),
        (("--srcdict", "none/dict.txt"), "none/dict.txt: No such file or directory"),
    ],
)
def test_binarize_options(copy, capsys, options, message):
    before = names(copy)
    assert message in fails_here(capsys, copy, "--trainpref", copy / "w", *options)
    assert names(copy) == before


def test_binarize_sees_lines_that_fairseq_read_twice(copy, capsys, monkeypatch):
    from fairseq.binarizer import FileBinarizer

    make = FileBinarizer.multiprocess_dataset.__func__

    def twice(cls, input_file, *arguments, **settings):
        doubled = Path(f"{input_file}.twice")
        doubled.write_bytes(Path(input_file).read_bytes() * 2)
        return make(cls, str(doubled), *arguments, **settings)

    monkeypatch.setattr(FileBinarizer, "multiprocess_dataset", classmethod(twice))
    error = fails_here(capsys, copy, "--trainpref", copy / "w")
    assert (
        "w.en: fairseq binarised 60 sentences, but the file has 30 lines; use fewer --workers"
        in error
    )


def test_binarize_does_not_replace_what_it_did_not_make(copy, capsys):
    (copy / "data").mkdir()
    (copy / "data" / "thesis.tex").touch()
    arguments = "--trainpref", copy / "w"
    assert "already exists; choose another" in fails_here(capsys, copy, *arguments)
    assert "the folder contains no preprocess.log" in fails_here(
        capsys, copy, *arguments, "--overwrite"
    )
    assert names(copy / "data") == ["thesis.tex"]
