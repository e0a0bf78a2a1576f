"""A recipe for a corpus of one's own."""

import random
import sys

import pytest

from fairseq_posattn.cli import recipe
from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments import sizes
from fairseq_posattn.experiments.commands import Shell
from fairseq_posattn.experiments.corpora import Collector
from fairseq_posattn.experiments.new_recipe import new_recipe, prepare_options
from fairseq_posattn.experiments.recipe import read_recipe
from fairseq_posattn.preparation.segment import learn_sentencepiece
from support.files import write


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "a \u201cstrange\u201d \\ folder"
    folder.mkdir()
    for name in ("train.en", "train.ja", "dev.en", "dev.ja.gz", "test1.en", "test1.ja", "test2.en"):
        (folder / name).write_text("x\n" * 3)
    return folder


def test_a_recipe_is_written_that_can_be_read(tmp_path, corpus):
    new_recipe(tmp_path / "mine", "en", "ja", corpus)
    content = read_recipe(str(tmp_path / "mine")).content
    assert content.corpus.folder == str(corpus)
    assert (content.corpus.valid, content.corpus.tests) == ("dev", ["test1"])
    assert content.corpus.prepare["segmenter"] == "sentencepiece"
    assert [row.title for row in content.models] == ["sequence", "structural", "structural_chain"]
    assert {row.size for row in content.models} == {"small"}
    # so few pairs are learnt by heart long before the shared number of updates
    assert content.sizes["demo"] == sizes.size_for("demo", 3) != sizes.size_for("demo", 30_000)


@pytest.mark.parametrize("target", ["zh_CN", "jpn", "Thai", "yue", "lo"])
def test_languages_without_spaces(target):
    assert "sentencepiece" in prepare_options("en", target, 3000)
    assert "sentencepiece" in prepare_options(target, "en", 3000)
    assert "segmenter" not in prepare_options("en", "ko", 3000)


def test_a_large_corpus_gets_a_larger_model(tmp_path, corpus, monkeypatch):
    monkeypatch.setattr(sizes, "LARGE", 3)
    monkeypatch.setattr("fairseq_posattn.experiments.new_recipe.FEW", 3)
    new_recipe(tmp_path / "mine", "en", "ja", corpus)
    content = read_recipe(str(tmp_path / "mine")).content
    assert list(content.sizes) == ["base", "demo"]
    assert content.corpus.prepare["symbols"] == 32000
    assert content.sizes["base"] == sizes.size_for("base", 3)


def test_what_is_missing_is_named(tmp_path, corpus):
    for name in ("dev.en", "test1.en"):
        (corpus / name).unlink()
    message = r"contains no valid.en and valid.ja, no test.en and test.ja; put"
    with pytest.raises(InputError, match=message):
        new_recipe(tmp_path / "mine", "en", "ja", corpus)
    assert not (tmp_path / "mine").exists()
    with pytest.raises(InputError, match="there is no such folder; give the path of the corpus"):
        new_recipe(tmp_path / "mine", "en", "ja", tmp_path / "none")


def test_names_that_no_recipe_may_have(tmp_path, corpus):
    for language in ("en", "ja"):
        (corpus / f"test a.{language}").write_text("x\n")
    with pytest.raises(InputError, match=r"'test a' is not a plain name: .*; rename it"):
        new_recipe(tmp_path / "mine", "en", "ja", corpus)
    with pytest.raises(InputError, match=r"'en/\.\.' is not a plain name"):
        new_recipe(tmp_path / "mine", "en/..", "ja", corpus)


def test_a_recipe_is_not_overwritten(tmp_path, corpus):
    path = new_recipe(tmp_path / "mine", "en", "ja", corpus)
    before = path.read_text()
    with pytest.raises(InputError, match="the recipe already exists; choose another"):
        new_recipe(tmp_path / "mine", "ja", "en", corpus)
    assert path.read_text() == before


def test_sentencepiece_can_learn_as_many_pieces(tmp_path):
    """A number that a small text cannot reach would be refused."""
    random.seed(1)
    words = ["".join(random.choices("あいうえおかきくけこ日本語", k=3)) for _ in range(200)]
    for name in ("train", "dev", "test"):
        for language in ("en", "ja"):
            lines = ["".join(random.choices(words, k=6)) for _ in range(300)]
            write(tmp_path / f"{name}.{language}", lines)
    new_recipe(tmp_path / "mine", "en", "ja", tmp_path)
    number = read_recipe(str(tmp_path / "mine")).content.corpus.prepare["symbols"]
    assert number == 300 + 13
    texts = [str(tmp_path / f"train.{language}") for language in ("en", "ja")]
    learn_sentencepiece(texts, str(tmp_path / "model"), number)


@pytest.mark.parametrize("door", ["recipes/{}.sh", "posattn recipe {}"])
def test_a_name_is_a_folder_of_the_current_one(tmp_path, corpus, monkeypatch, capsys, door):
    """The next command is one of those that the user starts, and finds the recipe by this name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POSATTN_PYTHON", raising=False)
    if door.startswith("recipes"):
        monkeypatch.setenv("POSATTN_PYTHON", sys.executable)
    words = ["new", "mine", "--source", "en", "--target", "ja", "--from", str(corpus)]
    monkeypatch.setattr(sys, "argv", ["posattn recipe", *words])
    recipe.main()
    assert capsys.readouterr().out == (
        f"mine/recipe.toml: the recipe was written; continue with {door.format('prepare')} mine\n"
    )
    assert read_recipe("mine").folder == tmp_path / "mine"


def test_trees_beside_the_texts_are_copied(tmp_path, corpus):
    (corpus / "dev.ja.gz").rename(corpus / "dev.ja")
    (corpus / "train.conllu").write_text("1\tx\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    new_recipe(tmp_path / "mine", "en", "ja", corpus)
    raw = tmp_path / "raw"
    Collector(read_recipe(str(tmp_path / "mine")), Shell(), corpus, raw, any_size=True).collect()
    assert (raw / "train.conllu").read_text() == (corpus / "train.conllu").read_text()
    assert not (raw / "dev.conllu").exists()
