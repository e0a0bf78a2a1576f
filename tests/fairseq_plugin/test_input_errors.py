"""Wrong inputs that fairseq answers with a traceback or an assertion end in one line that says what
to do."""

import os
import re
from pathlib import Path

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.paths import refuse_split_path
from fairseq_posattn.preparation.binarize import binarize, parser
from fairseq_posattn.preparation.corpus import Corpus
from fairseq_posattn.preparation.prepare import prepare
from fairseq_posattn.preparation.request import PreparationRequest
from support import in_process
from support.in_process import generate, interactive
from support.trainings import train


def refusal(result) -> str:
    """The message that a program ends with, which becomes one line: see test_one_line.py."""
    assert isinstance(result.error, InputError), result.error
    assert len(str(result.error)) <= 300
    return str(result.error)


# lengths


@pytest.fixture(scope="module")
def short_model(corpora, tmp_path_factory) -> Path:
    """Train a model that takes twelve pieces."""
    folder = tmp_path_factory.mktemp("short")
    options = ["--max-source-positions", "12", "--max-target-positions", "12"]
    options += ["--skip-invalid-size-inputs-valid-test", "--max-update", "1"]
    train("stock", corpora, folder, *options)
    return folder / "checkpoint_last.pt"


STOCK = ["--task", "translation"]


@pytest.mark.parametrize("task", [STOCK, []], ids=["stock", "tree"])
def test_a_line_longer_than_the_model_takes(task, short_model, corpora):
    """Its number counts all lines, not those of a buffer."""
    text = "tse tse\n" * 3 + "tse " * 20 + "\ntse\n"
    options = [*task, "--buffer-size", "2", "--batch-size", "2"]
    result = interactive(corpora / "translation", short_model, text, *options, check=False)
    assert result.output.count("H-") == 2
    assert refusal(result) == (
        "line 4 of the input has 21 pieces, but the model accepts at most 12 and 12 pieces; "
        "shorten it, or skip such sentences with --skip-invalid-size-inputs-valid-test"
    )


def test_a_line_longer_than_fairseq_takes_by_default(corpora, tmp_path):
    """It is translated if the model takes it, unless a limit is given."""
    limits = ["--max-source-positions", "1100", "--max-target-positions", "1100"]
    train(
        "stock", corpora, tmp_path, *limits, "--task", "structured_translation", "--max-update", 1
    )
    data, model, text = corpora / "translation", tmp_path / "checkpoint_last.pt", "tse " * 1050
    assert "H-0" in interactive(data, model, text, "--max-len-b", "3").output
    message = refusal(interactive(data, model, text, "--max-source-positions", 900, check=False))
    assert "has 1051 pieces, but the model accepts at most 900 and" in message


def test_a_sentence_of_the_data_longer_than_the_model_takes(short_model, corpora, toy_data):
    data = corpora / "translation"
    message = refusal(generate(data, short_model, *STOCK, check=False))
    found = re.match(
        r"sentence (\d+) of the data \(counted from 0\) has (\d+) and (\d+) p", message
    )
    texts = [(toy_data.parent / f"test.{side}").read_text() for side in ("src", "tgt")]
    lengths = [len(text.split("\n")[int(found[1])].split()) + 1 for text in texts]
    assert lengths == [int(found[2]), int(found[3])] and max(lengths) > 12
    skipping = ["--skip-invalid-size-inputs-valid-test"]
    assert "H-" in generate(data, short_model, *STOCK, *skipping).output


@pytest.mark.parametrize("multiple", ["1", "8"])
def test_no_sentence_is_short_enough(multiple, toy_data, tmp_path):
    options = ["--max-source-positions", "1", "--skip-invalid-size-inputs-valid-test"]
    options += ["--required-batch-size-multiple", multiple, "--disable-validation"]
    message = refusal(in_process.train(toy_data, tmp_path, *STOCK, *options, check=False))
    assert "exceed --max-source-positions" in message


@pytest.mark.long(ci=["tree"])
@pytest.mark.parametrize("kind", ["stock", "tree"])
def test_fewer_tokens_than_a_sentence(kind, models, toy_data):
    """The message says how many are enough."""
    task = ["--task", "translation"] if kind == "stock" else []
    model = models / kind / "checkpoint_last.pt"
    options = [*task, "--batch-size", "9", "--max-tokens"]
    message = refusal(generate(toy_data, model, *options, "5", check=False))
    longest = re.fullmatch(
        r"--max-tokens 5 is too small, because the longest sentence has (\d+) pieces; "
        r"give at least --max-tokens \1, or --batch-size instead",
        message,
    )[1]
    generate(toy_data, model, *options, longest)
    assert refusal(generate(toy_data, model, *options, int(longest) - 1, check=False))


# characters at which fairseq splits


@pytest.mark.parametrize("listed", ["{0}/x:y:{0}/z", "{0}/z:{0}/x:y", "{0}/u:v:w"])
def test_a_path_that_would_be_split(listed, tmp_path):
    for name in ("x:y", "z", "u:v:w"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="fairseq would split this path at ':'; rename"):
        refuse_split_path(listed.format(tmp_path), ":")
    refuse_split_path(f"{tmp_path}/z:{tmp_path}/z", ":")


@pytest.mark.parametrize("task", [STOCK, []], ids=["stock", "tree"])
def test_a_colon_in_the_folder_of_data(task, toy_data, tmp_path):
    data = tmp_path / "a:b"
    data.symlink_to(toy_data)
    result = training(data, tmp_path / "run", *task)
    assert refusal(result).startswith(f"{data}: fairseq would split this path at ':'")
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))


def test_a_colon_in_the_name_of_a_checkpoint(stock_model, toy_data, tmp_path):
    model = tmp_path / "a:b.pt"
    model.symlink_to(stock_model)
    for program in (generate, lambda *args, **kwargs: interactive(*args[:2], "tse", **kwargs)):
        result = program(toy_data, model, *STOCK, check=False)
        assert refusal(result).startswith(f"{model}: fairseq would split this path at ':'")
    generate(toy_data, f"{stock_model}:{stock_model}", *STOCK)  # an ensemble


@pytest.mark.parametrize("option", ["--validpref", "--testpref"])
def test_a_comma_in_a_prefix(option, toy_data, tmp_path):
    folder = tmp_path / "a,b"
    folder.symlink_to(toy_data.parent)
    options = ["--source-lang", "src", "--target-lang", "tgt", "--trainpref", folder / "train"]
    with pytest.raises(InputError, match=r"a,b/dev: fairseq would split this path at ','"):
        binarized(*options, option, folder / "dev", "--destdir", tmp_path / "out")
    with pytest.raises(InputError, match=r"--destdir .*: fairseq splits such paths at ':'"):
        binarized(*options, "--destdir", tmp_path / "a:b")
    assert sorted(os.listdir(tmp_path)) == ["a,b"]


@pytest.mark.parametrize(("out", "work"), [("a:b", "work"), ("data", "a,b.work")])
def test_folders_of_a_preparation(out, work, tmp_path):
    """They are refused before the long work starts."""
    with pytest.raises(
        InputError, match=r"fairseq splits such paths at '[:,]'; use a path without"
    ):
        prepare(
            PreparationRequest(
                source="a",
                target="b",
                corpus=Corpus("train"),
                segmenter="words",
                out=tmp_path / out,
                work=tmp_path / work,
            )
        )
    assert not list(tmp_path.iterdir())


def training(data: Path, save_dir: Path, *options):
    return in_process.train(data, save_dir, *options, check=False)


def binarized(*options) -> None:
    binarize(parser().parse_args([str(option) for option in options]))


# what fairseq-train and fairseq-interactive are given


def test_a_training_without_the_size_of_a_batch(toy_data, tmp_path):
    """As the first command of docs/training.md once was."""
    options = ["--task", "structured_translation", "--arch", "posattn_transformer", "--cpu"]
    result = in_process.call(
        "train", toy_data, *options, "--save-dir", tmp_path / "run", check=False
    )
    assert "--max-tokens 4096, or in sentences with --batch-size" in refusal(result)


def test_a_training_without_a_batch(toy_data, tmp_path):
    """fairseq drops the sentences beyond a multiple of eight, and here there is nothing else."""
    few = ["--max-tokens", "100000", "--required-batch-size-multiple", "100000"]
    said = refusal(training(toy_data, tmp_path, *few))
    assert "use shorter sentences, more sentences, or --required-batch-size-multiple 1" in said


def test_a_backend_that_nobody_has_tried(toy_data, tmp_path, monkeypatch):
    sharded = ["--ddp-backend", "fully_sharded"]
    assert "is untested with these models" in refusal(training(toy_data, tmp_path, *sharded))
    monkeypatch.setenv("POSATTN_UNTRIED", "1")
    assert "pip install fairscale" in refusal(training(toy_data, tmp_path, *sharded))


LANGUAGES = ["-s", "src", "-t", "tgt"]


@pytest.mark.parametrize("languages", [LANGUAGES, []], ids=["named", "inferred"])
@pytest.mark.parametrize("task", ["translation", "structured_translation"])
@pytest.mark.parametrize("program", ["train", "generate", "interactive"])
def test_a_folder_of_data_that_is_not_there(program, task, languages, stock_model, tmp_path):
    data, options = tmp_path / "daat", ["--task", task, "--cpu", *languages]
    if program == "train":
        options += ["--arch", "posattn_transformer", "--max-tokens", "9"]
    else:
        options += ["--path", stock_model]
    found = refusal(in_process.call(program, data, *options, check=False))
    assert found.startswith(
        f"{data}: there is no such folder; give the path of a folder that posattn prepare"
    )


def test_a_folder_without_the_data(tmp_path, toy_data):
    found = refusal(training(toy_data, tmp_path, "-t", "tg"))
    assert found.startswith(
        f"{toy_data}/dict.tg.txt: there is no such file; give the path of a folder"
    )
    options = ["--task", "structured_translation", "--arch", "posattn_transformer"]
    result = in_process.call("train", tmp_path, *options, "--max-tokens", "9", check=False)
    assert refusal(result).startswith(
        f"{tmp_path}: the folder contains no data of a language pair; give"
    )


@pytest.mark.parametrize("task", [STOCK, []], ids=["stock", "tree"])
@pytest.mark.parametrize("size", ["1", "9"])
def test_a_line_that_is_not_utf_8(size, task, stock_model, toy_data, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"tse\ntse \xff\xfe\ntse\n")
    options = [*task, "--buffer-size", size]
    result = interactive(toy_data, stock_model, "", *options, "--input", text, check=False)
    assert refusal(result).startswith(f"{text}:2: the line is not UTF-8")
    lines = "tse\ntse \udcff\n"  # as Python reads it from a standard input without a language
    result = interactive(toy_data, stock_model, lines, *options, check=False)
    assert refusal(result).startswith("standard input:2: the line is not UTF-8")
