"""posattn show --path: a layer of a trained encoder, with the weights of its forward pass."""

import sys

import pytest
import torch

from fairseq_posattn.inspection.attention import encoder_attention
from fairseq_posattn.inspection.model import load
from fairseq_posattn.inspection.sentence import sentence_of_file, sentence_of_text
from fairseq_posattn.inspection.trained import trained_picture
from fairseq_posattn.text.live.parser_process import LiveParser, answer
from support.commands import run
from support.files import lines_of
from support.in_process import batch, end_of, train
from support.panels import matrices

NUMBER, LAYER = 3, 1


def expected(checkpoint, data, sentence=NUMBER):
    """The weights of a sentence of the data, heads x queries x keys of each layer."""
    model, task, _ = load(checkpoint, str(data), cpu=True)
    return torch.as_tensor(encoder_attention(model, batch(task, "test", [sentence])))


@pytest.mark.parametrize("kind", ["stanza", pytest.param("unigram-stanza", marks=pytest.mark.long)])
def test_raw_text_and_a_given_tree_give_the_weights_of_the_data(corpus, kind, monkeypatch):
    pytest.importorskip("stanza")
    asked = []

    def ask(self, what, lines):
        asked.append(what)
        return answer(self.settings, what, lines)

    monkeypatch.setattr(LiveParser, "ask", ask)
    checkpoint, data = corpus.model(kind), corpus.data(kind)
    weights = expected(checkpoint, data)[LAYER]
    conllu = str(corpus.folder / f"{kind}.work/test.conllu.xz")
    text, sentence = sentence_of_file(conllu, NUMBER)
    given = trained_picture(checkpoint, text, sentence, LAYER)
    assert not asked
    raw = lines_of(corpus.folder / "raw/test.de")[NUMBER]
    parsed = trained_picture(checkpoint, raw, sentence_of_text(raw), LAYER)
    assert "parse" in asked
    for picture in (given, parsed):
        torch.testing.assert_close(matrices(picture.rows[-1]), weights)
        assert picture.tree.words == sentence.words
        assert [one.name for one in picture.mechanisms] == ["relative", "tree_relative"]


@pytest.fixture(scope="module")
def prenorm(toy_data, tmp_path_factory):
    """A model whose layers normalise their input, behind a mechanism that changes it."""
    folder = tmp_path_factory.mktemp("prenorm")
    options = ["--encoder-normalize-before", "--encoder-attention", "cnn@1 + convolved_2d"]
    train(toy_data, folder, *options, "--disable-validation", "--lr", "1e-2")
    return folder / "checkpoint_last.pt"


def test_a_model_that_normalises_before_attention(prenorm, toy_data):
    pieces = lines_of(toy_data.parent / "test.src")[NUMBER]
    sentence, weights = sentence_of_text(pieces), expected(prenorm, toy_data)
    for layer in (0, 1):
        picture = trained_picture(prenorm, pieces, sentence, layer)
        torch.testing.assert_close(matrices(picture.rows[-1]), weights[layer])
        assert picture.tree is None and picture.pieces == (*pieces.split(), "</s>")
    assert not torch.allclose(matrices(picture.rows[0]), weights[layer])  # without any mechanism


@pytest.mark.long(ci=True)
def test_the_command_writes_a_page(prenorm, toy_data, tmp_path):
    out, moved = tmp_path / "picture.html", tmp_path / "moved"
    moved.symlink_to(toy_data)
    options = ["--path", prenorm, "--data", moved, "--sentence", "w x", "--out", out]
    program = [sys.executable, "-m", "fairseq_posattn.cli.show", *options]
    assert run(*program, fresh=True).stdout == f"{out}\n"  # and no log of fairseq
    text = out.read_text()
    assert "checkpoint_last.pt: convolved_2d" in text and "Layer 0, 4 heads." in text


@pytest.mark.long(ci=True)
def test_what_cannot_be_drawn_is_refused_in_one_line(prenorm, toy_data, tmp_path, monkeypatch):
    for kind, options in {
        "stock": ["--arch", "transformer"],
        "tree": ["--encoder-attention", "tree_relative"],
    }.items():
        train(toy_data, tmp_path / kind, *options, "--max-update", "1", "--disable-validation")

    def refusal(*options):
        return end_of("show", *options, "--out", tmp_path / "x.svg")

    def refused(path, *options):
        return refusal("--path", path, "--sentence", "a b", *options)

    both = refusal("window", "--path", prenorm)
    assert both == refusal() and "expected either a SPECIFICATION or --path" in both
    assert "give --sentence TEXT or --conllu FILE" in refusal("--path", prenorm)
    assert "--heads and --seed do not apply to a trained model; leave" in refused(
        prenorm, "--heads", "2"
    )
    assert "--data applies only to a trained model" in refusal("window", "--data", toy_data)
    assert "no such checkpoint" in refused(tmp_path / "none.pt")
    assert "--layer 2: the encoder" in (found := refused(prenorm, "--layer", "2"))
    assert found.endswith("has 2 layers; choose 0 to 1")
    stock = refused(tmp_path / "stock/checkpoint_last.pt")
    assert "no encoder with attention of this package" in stock and "posattn examples" in stock
    tree = refused(tmp_path / "tree/checkpoint_last.pt")
    assert "--sentence has no tree" in tree and "use --conllu FILE" in tree
    lacking = refused(prenorm, "--data", tmp_path / "none")
    assert "none: there is no such folder" in lacking
    (tmp_path / "no.pt").write_bytes(b"no model")
    assert "no.pt" in refused(tmp_path / "no.pt")
