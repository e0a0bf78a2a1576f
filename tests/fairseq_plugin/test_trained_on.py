"""A checkpoint tells which data it was trained on, and others are refused or named."""

import shutil
from pathlib import Path

import pytest
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.pipeline import TextConfig, TextPipeline
from fairseq_posattn.trees.control import TreeControl
from support.commands import FULL_TREE
from support.in_process import generate, interactive, train

UPDATES = ("--max-update", "1", "--disable-validation")


def prepared(toy: Path, folder: Path, **choices) -> Path:
    """A copy of the data, with the prepare.json that posattn prepare would have written."""
    shutil.copytree(toy, folder)
    shutil.copy(toy.parent / "codes", folder / "segmenter")
    spaces = {"normalize": False, "tokenize": "spaces", "target_tokenize": "spaces"}
    TextPipeline(TextConfig("src", "tgt", **spaces, **choices), folder).save(folder)
    return folder


@pytest.fixture(scope="module")
def own(toy_data, tmp_path_factory):
    """Data with own trees, and a model that was trained on them."""
    folder = tmp_path_factory.mktemp("own")
    data = prepared(toy_data, folder / "data")
    train(data, folder / "run", *FULL_TREE, *UPDATES)
    return data, folder / "run/checkpoint_last.pt"


def in_another_order(data: Path, language: str) -> Path:
    path = data / f"dict.{language}.txt"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([second, first, *rest]))
    return path


def of_an_earlier_version(checkpoint: Path, out: Path) -> Path:
    out.parent.mkdir(exist_ok=True)
    state = torch.load(checkpoint, weights_only=False)
    del state["task_state"]["trained_on"]
    torch.save(state, out)
    return out


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("language", ["src", "tgt"])
def test_a_dictionary_in_another_order(language, own, tmp_path):
    data, model = own
    other = shutil.copytree(data, tmp_path / "data")
    path = in_another_order(other, language)
    old = of_an_earlier_version(model, tmp_path / "old/checkpoint_last.pt")
    generate(other, old)
    train(other, old.parent, *FULL_TREE, *UPDATES, "--max-update", "2")
    shutil.copytree(model.parent, tmp_path / "run")
    for result in (
        generate(other, model, check=False),
        train(other, tmp_path / "run", *FULL_TREE, *UPDATES, "--max-update", "2", check=False),
        train(other, tmp_path / "new", *FULL_TREE, "--finetune-from-model", model, check=False),
    ):
        assert isinstance(result.error, InputError)
        assert str(result.error).startswith(
            f"{path}: the model was trained with another dictionary"
        )


def test_the_same_data_in_another_place(own, tmp_path):
    data, model = own
    moved = shutil.copytree(data, tmp_path / "moved")
    shutil.copytree(model.parent, tmp_path / "run")
    assert "trees of the control" not in generate(moved, model).output
    again = train(moved, tmp_path / "run", *FULL_TREE, *UPDATES, "--max-update", "2")
    assert "trees of the control" not in again.output


@pytest.mark.long(ci=True)
def test_trees_of_another_control(own, toy_data, tmp_path):
    _, model = own
    chain = prepared(toy_data, tmp_path / "chain", control=TreeControl("chain"))
    warning = "trained on trees of the control 'own', but these data have the control 'chain'"
    assert generate(chain, model).output.count(warning) == 1
    old = of_an_earlier_version(model, tmp_path / "old.pt")
    assert warning not in generate(chain, old).output
    tuned = train(chain, tmp_path / "new", *FULL_TREE, *UPDATES, "--finetune-from-model", model)
    assert warning in tuned.output
    train(toy_data, tmp_path / "stock", "--arch", "transformer", *UPDATES)
    stock = tmp_path / "stock/checkpoint_last.pt"
    assert "trees of the control" not in generate(chain, stock).output  # it reads none


@pytest.mark.parametrize("stored", ["own", "chain", None])
def test_stored_trees_are_of_the_control_that_is_asked_for(stored, own, toy_data, tmp_path):
    """Stored trees are not changed, so any other control is refused."""
    data, model = own
    if stored is None:  # nobody has written it down
        data = toy_data
    elif stored == "chain":
        data = prepared(toy_data, tmp_path / "chain", control=TreeControl("chain"))
    for asked in ("own", "chain", "chain-flip0.5"):
        result = generate(data, model, "--tree-control", asked, check=False)
        if asked == (stored or "own"):
            assert "H-0" in result.output and "trees of the control" not in result.output
        else:
            assert isinstance(result.error, InputError)
            found = f"--tree-control {asked} applies to sentences without stored trees"
            assert str(result.error).startswith(found)
            assert f"posattn prepare --control {asked.split('-')[0]}" in str(result.error)


def test_new_text_gets_trees_of_another_control(own, toy_data, tmp_path):
    _, model = own
    choices = {"control": TreeControl("chain"), "parser": ParserSettings("none")}
    chain = prepared(toy_data, tmp_path / "chain", **choices)
    text = Path(toy_data.parent / "test.words").read_text().splitlines()[0] + "\n"
    found = interactive(chain, model, text)
    assert found.output.count("but these data have the control 'chain'") == 1
    asked = interactive(chain, model, text, "--tree-control", "chain")
    assert "trees of the control" not in asked.output and "H-0" in asked.output


def test_another_separator(own, toy_data, tmp_path):
    other = prepared(toy_data, tmp_path / "other", separator="##")
    error = generate(other, own[1], check=False).error
    assert isinstance(error, InputError)
    assert str(error).startswith(
        f"{other / 'prepare.json'}: the piece separator is '##', but it is '@@' in the model's tra"
    )
