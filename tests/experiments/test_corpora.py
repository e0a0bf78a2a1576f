"""The texts of a recipe: copied, joined, counted, refused."""

import gzip
import lzma

import pytest

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.commands import Shell
from fairseq_posattn.experiments.corpora import Collector, references
from fairseq_posattn.experiments.recipe import read_recipe

RECIPE = """
title = "x"
source = "en"
target = "de"
models = [{ model = "sequence", size = "base" }]
sizes.base = { arch = "_tiny", updates = 1, batch_tokens = 1 }

[corpus]
valid = "dev"
tests = []
sentences = { train = [3, 34], dev = [1] }
"""


@pytest.fixture
def collector(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    for name in ("from", "raw"):
        (tmp_path / name).mkdir()
    (tmp_path / "from/train.en.gz").write_bytes(gzip.compress(b"one\r\ntwo"))
    (tmp_path / "from/train.de.xz").write_bytes(lzma.compress("eins\nzw\u00f6i\n".encode()))
    for language in ("en", "de"):
        (tmp_path / f"from/dev.{language}").write_text("x\n")
    recipe = read_recipe(str(tmp_path))
    return Collector(recipe, Shell(), tmp_path / "from", tmp_path / "raw", any_size=False)


def test_texts_are_copied_plain(collector):
    collector.collect()
    texts = {path.name: path.read_text() for path in collector.raw.iterdir()}
    assert texts["train.en"] == "one\ntwo\n" and texts["train.de"] == "eins\nzwöi\n"
    assert sorted(texts) == ["dev.de", "dev.en", "train.de", "train.en"]


def test_a_text_of_another_size(collector):
    (collector.folder / "dev.de").write_text("x\ny\n")
    with pytest.raises(InputError, match=r"dev.de: found 2 sentences, expected 1; get"):
        collector.collect()
    collector.any_size = True
    collector.collect()


def test_a_text_that_is_missing(collector):
    (collector.folder / "train.de.xz").unlink()
    with pytest.raises(
        InputError, match=r"train.de: the file does not exist, nor does train.de.gz, .xz"
    ):
        collector.collect()


def test_what_is_special_stands_in_corpus_py(collector, tmp_path):
    (tmp_path / "corpus.py").write_text(
        "def collect(collector):\n"
        "    collector.join('train.en', ['dev.en', 'train.en'])\n"
        "def references(raw, test):\n"
        "    return {'sgm': [raw / f'{test}.sgm']}\n"
    )
    collector.collect()
    assert (collector.raw / "train.en").read_text() == "x\none\ntwo\n"
    raw = collector.raw
    assert references(collector.recipe, raw, "mt02") == {"sgm": [raw / "mt02.sgm"]}
    (tmp_path / "corpus.py").write_text("x = 1 / 0\n")
    with pytest.raises(InputError, match=r"imported \(ZeroDiv.*; correct it"):
        collector.collect()
    (tmp_path / "corpus.py").write_text("import fairseq_posattn.former\n")
    with pytest.raises(InputError, match="the new name of the module"):
        collector.collect()


def test_nothing_is_written_where_commands_are_shown(collector, capsys):
    collector.shell = Shell(dry_run=True)
    collector.collect()
    assert capsys.readouterr().out.count("# write ") == 4
    assert list(collector.raw.iterdir()) == []
