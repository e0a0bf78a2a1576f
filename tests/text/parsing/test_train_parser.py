"""posattn train-parser: a treebank in, a folder for --model-dir out, whatever happens meanwhile."""

import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import leftovers
from fairseq_posattn.text.parsing import trainers
from fairseq_posattn.text.parsing.treebank import read_trees
from fairseq_posattn.trees.conllu import read_conllu
from support.background import Background
from support.commands import ROOT, run, step
from support.files import write
from support.in_process import end_of
from support.parse_toys import conllu_row, make_contracted_treebank, make_toy_treebank, train_toy

LINES = ["der Hund ging im Wald zum Haus.", "der Ball lief."]
WORDS = ["der Hund ging in dem Wald zu dem Haus .", "der Ball lief ."]
TREE = [
    "# text = la rudabo",
    conllu_row(1, "la", "DET", 2, "det"),
    conllu_row(2, "rudabo", "NOUN", 0, "root"),
    "",
]


def treebank(folder: Path, make: Callable[[Path], None]) -> Path:
    """A treebank as Universal Dependencies have it."""
    make(folder / "made")
    (folder / "UD_Toy").mkdir()
    for split in ("train", "dev"):
        shutil.move(folder / f"made/{split}.src.conllu", folder / f"UD_Toy/qde-ud-{split}.conllu")
    return folder / "UD_Toy"


def parsed_lines(models: Path, folder: Path, *options) -> list[str]:
    """The words of each line, as posattn parse finds them with these models."""
    text, out = write(folder / "text", LINES), folder / "parsed.conllu"
    step("parse", text, "--lang", "qde", "--model-dir", models, "--out", out, *options)
    return [" ".join(tree.words) for tree in read_conllu(out)]


@pytest.mark.long(ci=True)
def test_the_folder_is_what_posattn_parse_takes(tmp_path):
    """For a language that stanza does not know, with multiword tokens."""
    given, out = treebank(tmp_path, make_contracted_treebank), tmp_path / "models"
    printed = train_toy(given, "--lang", "qde", "--out", out).stdout
    scores = json.loads((out / "trained.json").read_text())["answer"]["scores"]
    assert list(scores) == ["upos", "uas", "las", "token_f1", "word_f1"]
    assert min(scores.values()) > 90, scores
    assert re.search(f"^{out}: on dev, UPOS {scores['upos']:.2f}, .* words", printed, re.M)
    assert parsed_lines(out, tmp_path) == WORDS

    shutil.rmtree(f"{out}.work")
    again = train_toy(given, "--lang", "qde", "--out", out).stdout
    assert again.splitlines() == [
        f"{out}: the models have already been trained",
        printed.splitlines()[-1],
    ]
    other = train_toy(given, "--lang", "qen", "--out", out, check=False)
    assert other.returncode == 1
    assert other.stdout.startswith(f"error: {out}: the folder contains files, but no parser")


@pytest.mark.long
def test_killed_in_the_parsers_training_it_goes_on_from_there(tmp_path):
    given, out = treebank(tmp_path, make_toy_treebank), tmp_path / "models"
    work, options = Path(f"{out}.work"), [given, "--lang", "qde", "--out", out, "--no-tokenizer"]
    program = [sys.executable, ROOT / "tests/support/train_stanza.py", *options]
    with Background(program, alone=True) as training:
        training.wait_until((work / "parser.checkpoint.pt").exists)
        training.look()
        os.kill(training.process.pid, signal.SIGKILL)
        assert training.wait() == -signal.SIGKILL
        assert training.left_behind() == []
    assert not out.exists()
    tagger = (work / "models/qde/pos/toy.pt").stat().st_mtime_ns
    printed = train_toy(*options).stdout
    assert "tagger: already done" in printed and "UPOS" in printed
    assert (work / "models/qde/pos/toy.pt").stat().st_mtime_ns == tagger
    assert "Continuing from checkpoint" in (work / "parser.log").read_text()
    assert not (work / "parser.checkpoint.pt").exists()
    assert parsed_lines(out, tmp_path, "--tokenized") == LINES


def ended(folder: Path, *options, lang: str = "qde") -> str:
    return end_of("train_parser", *options, "--lang", lang, "--out", folder / "models")


@pytest.mark.parametrize(
    ("row", "place", "what"),
    [
        ("2\trudabo", 3, "CoNLL-U has 10 columns separated by tabs"),
        (conllu_row(3, "rudabo", "NOUN", 0, "root"), 3, "expected the ID 2, found '3'"),
        (conllu_row(2, "rudabo", "NOUN", 1, "root"), 2, "the sentence has no root"),
        (conllu_row(2, "rudabo", "_", 0, "root"), 3, "the word has no UPOS"),
        (conllu_row(2, "rudabo", "NOUN", 0, "_"), 3, "the word has no DEPREL"),
        (conllu_row(2, "rudaba", "NOUN", 0, "root"), 1, "the text continues with 'rudabo', but"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, row, place, what):
    train = write(tmp_path / "train", [*TREE, *TREE[:2], row, ""])
    message = ended(tmp_path, "--train", train, "--dev", write(tmp_path / "dev", TREE))
    assert message.startswith(f"error: {train}:{len(TREE) + place}: ") and what in message
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"a-ud-train.conllu": TREE}, "*-ud-dev.conllu: expected one file, found no such"),
        ({"a-ud-train.conllu": TREE, "b-ud-train.conllu.xz": b""}, "a-ud-train.conllu, b-ud"),
        ({"a-ud-train.conllu": TREE, "a-ud-dev.conllu": ["# nothing", ""]}, "no sentences"),
    ],
)
def test_a_folder_without_the_files_is_refused(tmp_path, files, what):
    for name, content in files.items():
        write(tmp_path / "UD" / name, content)
    message = ended(tmp_path, tmp_path / "UD")
    assert message.startswith("error: ") and what in message


def test_remedies_are_options_that_are_there(tmp_path):
    """Another command keeps the first of several roots."""
    roots = [*TREE[:2], conllu_row(2, "rudabo", "NOUN", 0, "root"), ""]
    train = write(tmp_path / "train", [line.replace("\t2\tdet", "\t0\tdet") for line in roots])
    files = ["--train", train, "--dev", write(tmp_path / "dev", TREE)]
    message = ended(tmp_path, *files)
    assert "has 2 roots" in message
    assert message.endswith("or keep the first root with posattn trees --several-roots first")
    said = end_of("trees", train, "--several-roots", "first", "--out", tmp_path / "one")
    assert "wrote 1 sentences" in said
    files[1], files[3] = write(tmp_path / "dev", TREE), write(tmp_path / "dev", TREE)
    work = write(tmp_path / "work", "")
    message = ended(tmp_path, *files, "--work", work)
    assert (
        message == f"error: {work}: this is not a folder; give the path of a new or existing folder"
    )


def test_comments_without_spaces(tmp_path):
    lines = [line.replace("# text = ", "#text=") for line in TREE]
    [first, second] = read_trees(write(tmp_path / "train", ["#newpar", *lines, *lines]))
    assert (first.text, first.begins_paragraph) == ("la rudabo", True)
    assert (second.text, second.begins_paragraph) == ("la rudabo", False)


def test_what_cannot_be_begun_is_refused(tmp_path, monkeypatch):
    tree = write(tmp_path / "tree", TREE)
    files = ("--train", tree, "--dev", tree)
    assert "there is no such folder" in ended(tmp_path, tmp_path / "nothing")
    for options in ((), ("--train", tree), (tmp_path, *files)):
        assert "give either TREEBANK, or both --train and --dev" in ended(tmp_path, *options)
    assert ended(tmp_path, "--train", tree, "--dev", tmp_path / "no").endswith(
        "No such file or directory"
    )
    assert "--lang ../en is not a language code" in ended(tmp_path, *files, lang="../en")
    write(tmp_path / "models/resources.json", "{}")
    assert "the folder contains files, but no parser" in ended(tmp_path, *files)
    monkeypatch.setitem(sys.modules, "stanza", None)
    assert "pip install 'fairseq_posattn[parse]'" in ended(tmp_path, *files)


@pytest.mark.long
def test_a_trainer_that_fails_or_cannot_write_is_one_line(tmp_path):
    """stanza's trainers themselves go on where a model cannot be saved."""
    given, out = treebank(tmp_path, make_toy_treebank), tmp_path / "models"
    options = [given, "--lang", "qde", "--out", out, "--no-tokenizer"]
    program = [sys.executable, ROOT / "tests/support/train_stanza.py", *options]
    limited = f"ulimit -f 120; exec {shlex.join(map(str, program))}"  # kilobytes
    failed = run("bash", "-c", limited, check=False)
    assert failed.returncode == 1
    assert "toy.pt: the file exceeds the maximum file size" in failed.stdout
    assert leftovers(Path(f"{out}.work/models/qde/pos/toy.pt")) == []

    log = tmp_path / "log"
    with pytest.raises(InputError, match=rf"^{log}:\d+: stanza's trainer failed \(.*--nonsense"):
        trainers.run_trainer("pos", ["--nonsense"], log, "tagger")
