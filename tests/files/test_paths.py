"""Paths that cannot work are refused at the start; pipes and byte order marks where they can be."""

import codecs
import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.paths import refuse_stream
from fuzz.corpora import write_pieces
from fuzz.registry import program
from fuzz.runner import Command, run
from support.in_process import end_of

SEGMENT, EXTRACT, PROJECT = "segment", "extract", "project"
PARSE, BINARIZE, PREPARE, TAGGING = "parse", "binarize", "prepare", "binarize_tagging"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """Text, trees and merges in text/; pieces.de, pieces.en and pieces.de.trees made of them."""
    folder = tmp_path_factory.mktemp("sound")
    write_pieces(folder)
    return folder


@contextlib.contextmanager
def piped(path: Path):
    """A file as the shell gives it to a program that is started with <(cat FILE)."""
    reading, writing = os.pipe()
    os.write(writing, path.read_bytes())
    os.close(writing)
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


# --- pipes ---------------------------------------------------------------------------


def test_what_reads_once_takes_a_pipe(sound, tmp_path):
    text = sound / "text"
    with piped(text / "train.conllu") as pipe:
        end_of(EXTRACT, pipe, "--out", tmp_path / "train")
    assert (tmp_path / "train.words").read_text() == (text / "train.words").read_text()
    with piped(text / "train.de") as pipe:
        end_of(
            SEGMENT, "learn", pipe, text / "train.en", "--codes", tmp_path / "c", "--symbols", 30
        )
    assert (tmp_path / "c").read_text() == (text / "codes").read_text()
    with piped(text / "train.de") as pipe, piped(text / "codes") as codes:
        end_of(SEGMENT, "apply", pipe, "--codes", codes, "--out", tmp_path / "pieces")
    assert (tmp_path / "pieces").read_text() == (sound / "pieces.de").read_text()


def project(sound: Path, out: Path, **changed) -> str:
    text = sound / "text"
    files = {"words": text / "train.words", "parents": text / "train.parents"}
    files = {**files, "pieces": sound / "pieces.de", **changed}
    return end_of(PROJECT, *(f"--{name}={path}" for name, path in files.items()), "--out", out)


@pytest.mark.parametrize("name", ["words", "parents", "pieces"])
def test_what_reads_twice_refuses_a_pipe(sound, tmp_path, name):
    path = sound / "pieces.de" if name == "pieces" else sound / f"text/train.{name}"
    with piped(path) as pipe:
        line = project(sound, tmp_path / "out", **{name: pipe})
        assert line.startswith(f"error: {pipe}: this is a pipe or a device, but the program reads")
    assert os.listdir(tmp_path) == []


def test_a_named_pipe_is_refused_and_never_opened(tmp_path):
    """Opening it would wait for a writer."""
    os.mkfifo(tmp_path / "text")
    out = tmp_path / "out.conllu"
    given = ["--parser", "conllu", "--trees", tmp_path / "trees", "--out", out]
    assert "is a pipe" in end_of(PARSE, tmp_path / "text", *given)
    with pytest.raises(InputError, match="write it to a file first"):
        refuse_stream(tmp_path / "text")
    assert os.listdir(tmp_path) == ["text"]


def test_raw_text_from_a_pipe(sound, tmp_path):
    copy_raw(sound, tmp_path)
    (tmp_path / "raw.en").unlink()
    os.mkfifo(tmp_path / "raw.en")
    line = prepare(tmp_path, tmp_path / "data")
    assert line.startswith(f"error: {tmp_path}/raw.en: this is a pipe")


def copy_raw(sound: Path, folder: Path) -> None:
    for end in ("de", "en", "conllu"):
        (folder / f"raw.{end}").write_bytes((sound / f"text/train.{end}").read_bytes())


def prepare(folder: Path, out, *options) -> str:
    files = ["--source=de", "--target=en", f"--train={folder}/raw", f"--out={out}"]
    return end_of(PREPARE, *files, "--parser=conllu", "--tokenize=spaces", *options)


# --- outputs -------------------------------------------------------------------------


def outputs(sound: Path, out: Path) -> list[list]:
    """The commands that write one file, which is a folder here."""
    text = sound / "text"
    learn = [SEGMENT, "learn", text / "train.de", "--symbols", 30]
    apply = [SEGMENT, "apply", text / "train.de", "--codes", text / "codes", "--out", out]
    words = ["--words", text / "train.words", "--parents", text / "train.parents"]
    trees = ["--parser", "conllu", "--trees", text / "train.conllu"]
    return [
        [*learn, "--codes", out],
        [*learn, "--sentencepiece", out],
        apply,
        [PROJECT, *words, "--pieces", sound / "pieces.de", "--out", out],
        [PARSE, text / "train.de", *trees, "--out", out],
        [EXTRACT, text / "train.conllu", "--out", str(out).removesuffix(".words")],
    ]


@pytest.mark.parametrize("k", range(6))
def test_a_folder_in_the_place_of_the_output_is_refused_at_the_start(sound, tmp_path, k, capfd):
    out = tmp_path / ("out.conllu" if k == 4 else "out.words")
    out.mkdir()
    line = end_of(*outputs(sound, out)[k])
    assert line == f"error: {out}: the output is a folder; give the path of a file"
    assert os.listdir(tmp_path) == [out.name] and os.listdir(out) == []
    assert "..." not in capfd.readouterr().err  # nothing was begun


def test_a_file_in_the_place_of_a_folder_is_refused_at_the_start(sound, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    copy_raw(sound, tmp_path)
    sets = ["--train", tmp_path / "raw.conllu", "--valid", tmp_path / "raw.conllu"]
    files = ["--source-lang=de", "--target-lang=en", f"--trainpref={sound}/pieces"]
    for line in (
        prepare(tmp_path, out),
        end_of(TAGGING, *sets, "--destdir", out, "--overwrite"),
        end_of(BINARIZE, *files, "--destdir", out, "--overwrite"),
    ):
        assert (
            line == f"error: {out}: this is not a folder; give the path of a new or existing folder"
        )
    assert out.read_text() == "mine"


# --- names that fairseq splits -------------------------------------------------------


def test_names_that_fairseq_splits_are_refused_at_the_start(sound, tmp_path):
    copy_raw(sound, tmp_path)
    files = ["--source-lang=de", "--target-lang=en", f"--trainpref={sound}/pieces"]
    for line, name, option in (
        (prepare(tmp_path, tmp_path / "a:b"), "a:b", "--out"),
        (prepare(tmp_path, tmp_path / "a,b"), "a,b.work", "--work"),
        (prepare(tmp_path, tmp_path / "a", f"--work={tmp_path}/w,"), "w,", "--work"),
        (end_of(BINARIZE, *files, "--destdir", tmp_path / "a:b"), "a:b", "--destdir"),
    ):
        assert line.startswith(f"error: {option} {tmp_path}/{name}: fairseq splits such paths at ")
    assert sorted(os.listdir(tmp_path)) == ["raw.conllu", "raw.de", "raw.en"]


def test_a_comma_in_the_name_of_a_set_is_refused(sound, tmp_path):
    for end in ("de", "en", "de.trees"):
        (tmp_path / f"one,two.{end}").write_bytes((sound / f"pieces.{end}").read_bytes())
    files = ["--source-lang=de", "--target-lang=en", f"--trainpref={sound}/pieces"]
    for sets in (f"{tmp_path}/one,two", f"{sound}/pieces,{tmp_path}/one,two"):
        line = end_of(BINARIZE, *files, f"--validpref={sets}", "--destdir", tmp_path / "data")
        assert line.startswith(f"error: {tmp_path}/one,two: fairseq would split this path at ','")


# --- byte order marks ----------------------------------------------------------------

TEXTS = ["train.de", "train.en", "train.words", "train.parents", "train.conllu", "codes"]


@pytest.fixture(scope="module")
def marked(sound, tmp_path_factory) -> Path:
    """Return a folder with the same files, each beginning with a byte order mark."""
    folder = tmp_path_factory.mktemp("marked")
    (folder / "text").mkdir()
    for name in (*(f"text/{text}" for text in TEXTS), "pieces.de", "pieces.en", "pieces.de.trees"):
        (folder / name).write_bytes(codecs.BOM_UTF8 + (sound / name).read_bytes())
    return folder


def test_a_byte_order_mark_changes_nothing(sound, marked, tmp_path):
    text, out = marked / "text", tmp_path
    end_of(EXTRACT, text / "train.conllu", "--out", out / "train")
    texts = [text / "train.de", text / "train.en"]
    end_of(SEGMENT, "learn", *texts, "--codes", out / "codes", "--symbols", 30)
    apply = ["apply", text / "train.de", "--codes", text / "codes", "--out", out / "pieces.de"]
    end_of(SEGMENT, *apply)
    project(marked, out / "pieces.de.trees")
    for name in ("train.words", "train.parents", "codes"):
        assert (out / name).read_bytes() == (sound / "text" / name).read_bytes()
    for name in ("pieces.de", "pieces.de.trees"):
        assert (out / name).read_bytes() == (sound / name).read_bytes()


def test_a_mark_that_fairseq_would_take_for_a_word_is_refused(sound, marked, tmp_path):
    for name in ("pieces.de", "pieces.en", "pieces.de.trees"):
        (tmp_path / name).write_bytes((sound / name).read_bytes())
    files = ["--source-lang=de", "--target-lang=en", f"--trainpref={tmp_path}/pieces"]
    command = Command(program(BINARIZE), [*files, "--destdir", tmp_path / "data"])
    (tmp_path / "pieces.de.trees").write_bytes((marked / "pieces.de.trees").read_bytes())
    for name in ("pieces.de", "pieces.en"):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + before)
        message = run(command).err
        assert f"error: {tmp_path}/{name}:1: the line begins with a byte order mark" in message
        remedy = message.rstrip().partition("remove it with ")[2]
        subprocess.run(f"{remedy} {tmp_path / name}", shell=True, check=True)
        assert (tmp_path / name).read_bytes() == before
    assert run(command).code == 0  # the one of the trees is read over
