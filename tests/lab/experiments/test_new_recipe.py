"""A recipe for a corpus of one's own."""

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.lab.experiments import sizes
from fairseq_posattn.lab.experiments.new_recipe import new_recipe, prepare_options
from fairseq_posattn.lab.experiments.recipe import read_recipe


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
    new_recipe(tmp_path / "mine", "en", "ja", corpus)
    content = read_recipe(str(tmp_path / "mine")).content
    assert list(content.sizes) == ["base", "demo"]
    assert content.corpus.prepare["symbols"] == 32000
    assert content.sizes["base"] == sizes.size_for("base", 3)


def test_what_is_missing_is_named(tmp_path, corpus):
    for name in ("dev.en", "test1.en"):
        (corpus / name).unlink()
    message = r"there is no valid.en and valid.ja, no test.en and test.ja, plain or compressed; put"
    with pytest.raises(InputError, match=message):
        new_recipe(tmp_path / "mine", "en", "ja", corpus)
    assert not (tmp_path / "mine").exists()
    with pytest.raises(InputError, match="there is no such folder; name that of the corpus"):
        new_recipe(tmp_path / "mine", "en", "ja", tmp_path / "none")


def test_names_that_no_recipe_may_have(tmp_path, corpus):
    for language in ("en", "ja"):
        (corpus / f"test a.{language}").write_text("x\n")
    with pytest.raises(InputError, match=r"'test a' is not a plain name: .*; give it such"):
        new_recipe(tmp_path / "mine", "en", "ja", corpus)
    with pytest.raises(InputError, match=r"'en/\.\.' is not a plain name"):
        new_recipe(tmp_path / "mine", "en/..", "ja", corpus)


def test_a_recipe_is_not_overwritten(tmp_path, corpus):
    path = new_recipe(tmp_path / "mine", "en", "ja", corpus)
    before = path.read_text()
    with pytest.raises(InputError, match="there is a recipe already; name another one"):
        new_recipe(tmp_path / "mine", "ja", "en", corpus)
    assert path.read_text() == before
