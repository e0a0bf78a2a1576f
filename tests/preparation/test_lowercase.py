"""Data in lower case, whose source is parsed as it is; data that move with their models."""

import json
import shutil
from pathlib import Path

import pytest

from fairseq_posattn.text.pipeline import TextPipeline
from support.files import lines_of
from support.in_process import call, hypotheses_and_scores, translating
from support.raw_corpus import LANGUAGES, SIZES

pytest.importorskip("stanza")


@pytest.mark.long(but=["lower-stanza"])
@pytest.mark.parametrize(
    ("kind", "cased"), [("lower", "stanza"), ("unigram-lower", "unigram-stanza")]
)
def test_trees_are_those_of_the_text_as_it_is(corpus, kind, cased):
    data, other = corpus.data(kind), corpus.data(cased)
    for split in SIZES:
        name = f"{split}.conllu.xz"
        assert Path(f"{data}.work", name).read_bytes() == Path(f"{other}.work", name).read_bytes()
        for language in ("de", "en"):
            pieces = lines_of(Path(f"{data}.work/{split}.clean.{language}"))
            assert pieces == [line.lower() for line in pieces] and any(pieces)
    words = lines_of(Path(f"{data}.work/test.lower.de"))
    source = "words" if kind == "lower" else "text.de"
    assert words == [line.lower() for line in lines_of(Path(f"{other}.work/test.{source}"))]
    parents = [
        [[pair.split(":")[0] for pair in line.split(" ")] for line in lines_of(Path(path))]
        for path in (f"{data}.work/test.clean.de.trees", f"{other}.work/test.clean.de.trees")
    ]
    assert parents[0] == parents[1]


@pytest.mark.long(ci=True)
def test_new_text_is_in_lower_case(corpus, asked):
    data, model = corpus.data("lower"), corpus.model("lower")
    raw = "".join(f"{line}\n" for line in lines_of(corpus.folder / "raw/test.de"))
    common = [*translating(data, model), *LANGUAGES, "--batch-size", "4"]
    new = call("interactive", *common, "--buffer-size", "10", input=raw).output
    prepared = call("generate", *common).output
    found = [
        {number: text for number, (text, _) in hypotheses_and_scores(output).items()}
        for output in (new, prepared)
    ]
    assert found[0] == found[1] and len(found[0]) == SIZES["test"]
    lines = [str(line) for _, lines in asked for line in lines]
    assert any(line != line.lower() for line in lines)  # the parser gets the text as it is


def test_data_that_are_moved_with_their_models(corpus, tmp_path):
    """The models are found where they were or, if they are not there, as seen from the data."""
    project, moved = tmp_path / "project", tmp_path / "elsewhere/moved"
    shutil.copytree(corpus.data("stanza"), project / "data")
    models = project / "models"
    models.mkdir()
    about = json.loads((project / "data/prepare.json").read_text())
    about["parser"]["model_dir"] = str(models)
    about["model_dir_from_here"] = "../models"
    (project / "data/prepare.json").write_text(json.dumps(about))

    def found(data: Path) -> str | None:
        return TextPipeline.load(data).config.parser.model_dir

    assert found(project / "data") == str(models)
    shutil.copytree(project / "data", tmp_path / "alone")
    assert found(tmp_path / "alone") == str(models)
    shutil.move(project, moved)
    assert found(moved / "data") == str(moved / "models")
    assert found(tmp_path / "alone") == str(models)  # the message names the folder that is missing
