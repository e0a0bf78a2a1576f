"""The data of a recipe belong to the texts that they were made from."""

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_options import Table
from fairseq_posattn.experiments.translation import Translation
from support.experiments import in_process
from support.files import write

RECIPE = """
title = "x"
source = "en"
target = "de"
corpus = { valid = "dev", tests = ["one", "two"] }
models = [{ model = "sequence", size = "base" }]
sizes.base = { arch = "_tiny", updates = 2, batch_tokens = 1000 }
"""


@pytest.fixture
def prepared(tmp_path):
    """Texts, and data that an older version made from them; then a preparation has failed."""
    write(tmp_path / "recipe.toml", RECIPE)
    for name in ("train", "dev", "one", "two"):
        for language in ("en", "de"):
            for folder in ("from", "work/raw"):
                write(tmp_path / f"{folder}/{name}.{language}", [f"{name} {language}"])
    (tmp_path / "work/data").mkdir()

    def prepare(*options: str) -> None:
        in_process("prepare", tmp_path, "--from", tmp_path / "from", "--", *options)

    return tmp_path, prepare


def run(folder):
    experiment = Translation(Table(recipe=str(folder)))
    return experiment.planned([experiment.recipe.row("sequence", None)], [1])


def refused(folder, text: str, key: str) -> None:
    message = f"{folder}/work/raw/{text} ({key}) differs from the text that {folder}/work/data was "
    message += "made from; "
    with pytest.raises(InputError) as error:
        run(folder)
    assert str(error.value) == f"{message}run posattn recipe prepare {folder} again"


def test_a_preparation_that_fails_after_the_texts_were_replaced(prepared):
    """What is not changed may go on; and a second failure does not make it right."""
    folder, prepare = prepared
    run(folder)  # nobody knows from what an older version made its data
    prepare("--symbols", "none")
    run(folder)
    for line in ("other", "another"):
        write(folder / "from/two.de", [line])
        prepare("--symbols", "none")
        refused(folder, "two.de", "test1.de")
    write(folder / "from/two.de", ["two de"])
    prepare("--symbols", "none")
    run(folder)


def test_texts_that_are_others_now(prepared):
    folder, prepare = prepared
    prepare("--symbols", "none")
    raw = folder / "work/raw"
    write(folder / "recipe.toml", RECIPE.replace('"one", "two"', '"two", "one"'))
    refused(folder, "two.en", "test.en")
    write(folder / "recipe.toml", RECIPE.replace('"one", "two"', '"one"'))
    run(folder)
    write(folder / "recipe.toml", RECIPE)
    (raw / "dev.de").unlink()
    refused(folder, "dev.de", "valid.de")
    write(raw / "dev.de", ["dev de"])
    write(folder / "corpus.py", "references = lambda raw, test: {'sgm': sorted(raw.glob('*.sgm'))}")
    write(raw / "one.sgm", "x")
    refused(folder, "one.sgm", "test.reference0")
    (folder / "work/data.texts.json").write_text("[]")
    with pytest.raises(InputError, match=r"data.texts.json: the file is damaged .*; run posattn"):
        run(folder)
