"""One vector for each sentence: against plain loops, and alone as well as in any batch."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.inspection.model import Loaded
from fairseq_posattn.probing import encoding, words
from fairseq_posattn.probing.encoding import SentenceEncoder
from fairseq_posattn.probing.words import POOLINGS, cached, of_sentences
from fairseq_posattn.trees.conllu import read_conllu
from support.commands import FULL_TREE, PLUGIN
from support.in_process import build
from support.quick_hydra import quick_hydra

NAMES = list(POOLINGS)
NOISE = {"rtol": 1e-4, "atol": 1e-5}
LSTM = [
    *("--arch", "lstm", "--encoder-embed-dim", "16", "--encoder-hidden-size", "12"),
    *("--decoder-embed-dim", "16", "--decoder-hidden-size", "12", "--decoder-out-embed-dim", "8"),
]
TRANSFORMERS = {
    "tree": FULL_TREE,
    "tree, padded on the right": [*FULL_TREE, "--left-pad-source"],
    "stock": ["--task", "translation", "--arch", "transformer"],
    "narrow": ["--task", "translation", "--arch", "transformer", "--encoder-normalize-before"],
}


def by_loops(name, states, real, end):
    """Return the vector of one sentence, number by number."""
    pieces = [row for row, is_real in zip(states, real, strict=True) if is_real]
    if name == "mean":
        return [sum(column) / len(pieces) for column in zip(*pieces, strict=True)]
    if name == "max":
        return [max(column) for column in zip(*pieces, strict=True)]
    if name == "last":
        return pieces[-1]
    return next(row for row, is_end in zip(states, end, strict=True) if is_end)


def padded_batch(lengths, on_the_left, width=5):
    """Return random vectors, also where the padding is, and the masks of pieces and ends."""
    longest = max(lengths) + 1
    dice = torch.Generator().manual_seed(len(lengths) + on_the_left)
    states = torch.randn(len(lengths), longest, width, generator=dice) - 0.5
    states += 9.0 * torch.randn(len(lengths), longest, 1, generator=dice)
    real = torch.zeros(len(lengths), longest, dtype=torch.bool)
    end = torch.zeros_like(real)
    for number, length in enumerate(lengths):
        first = longest - length - 1 if on_the_left else 0
        real[number, first : first + length] = True
        end[number, first + length] = True
    return states, real, end


@pytest.mark.parametrize("on_the_left", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_poolings_against_loops(name, on_the_left):
    for lengths in ([1, 4, 2, 7], [1], [1, 1], [3, 3, 1]):
        batch = padded_batch(lengths, on_the_left)
        found = POOLINGS[name](*batch).tolist()
        for one, states, real, end in zip(found, *(x.tolist() for x in batch), strict=True):
            assert one == pytest.approx(by_loops(name, states, real, end), abs=1e-5)


# end to end


class Sentences(NamedTuple):
    """These are texts of the toy corpus with their trees; the lengths differ."""

    folder: Path
    texts: list
    trees: list


@pytest.fixture(scope="module")
def sentences(toy_data):
    folder = toy_data.parent
    trees = list(read_conllu(folder / "raw/test.src.conllu"))[:14]
    texts = [" ".join(tree.words) for tree in trees]
    assert len({len(tree.words) for tree in trees}) > 2
    return Sentences(folder, texts, trees)


def recurrent(data, *more):
    """Return the task, a fresh model and the configuration of fairseq's recurrent network."""
    parser = options.get_training_parser()
    given = [data, "--user-dir", PLUGIN, "--task", "translation", "-s", "src", "-t", "tgt", *LSTM]
    with quick_hydra():
        args = options.parse_args_and_arch(parser, [str(a) for a in [*given, *more]])
        cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    return task, task.build_model(cfg.model), cfg


@pytest.fixture(scope="module")
def encoder_called(sentences):
    """Return a function that makes the encoder of a fresh model, once for each name."""
    made = {}

    def encoder_called(name):
        if name not in made:
            data = sentences.folder / "data"
            pieces = ("--bpe", "subword_nmt", "--bpe-codes", sentences.folder / "codes")
            if name == "lstm":
                task, model, cfg = recurrent(data, *pieces, "--encoder-bidirectional")
            else:
                task, model, cfg = build(data, *TRANSFORMERS[name], *pieces)
            made[name] = SentenceEncoder(Loaded(model.eval(), task, cfg), str(data))
        return made[name]

    return encoder_called


def vectors_of(encoder, sentences, folder, pooling="mean"):
    """Return the vectors of sentences, N layers C, where the last layer is that of embeddings."""
    trees = sentences.trees if encoder.reads_trees else None
    count, encode = len(sentences.texts), of_sentences(encoder, sentences.texts, trees, pooling)
    return cached(folder, {"pooling": pooling}, "sentences", count, count, encode)


def one(sentences, number):
    """Return one of the sentences."""
    return sentences._replace(
        texts=sentences.texts[number : number + 1], trees=sentences.trees[number : number + 1]
    )


@pytest.mark.parametrize("pooling", NAMES)
@pytest.mark.parametrize("name", [*TRANSFORMERS, "lstm"])
def test_alone_as_in_a_batch(name, pooling, encoder_called, sentences, tmp_path):
    encoder = encoder_called(name)
    together = vectors_of(encoder, sentences, tmp_path / "all", pooling)
    assert len(together) == len(sentences.texts) and together.dtype == np.float32
    for number in range(0, len(sentences.texts), 3):
        alone = vectors_of(encoder, one(sentences, number), tmp_path / str(number), pooling)
        np.testing.assert_allclose(alone[0], together[number], **NOISE)
    spread = np.abs(together[0, -2] - together[1, -2]).max()
    assert spread > 1e-3  # the vectors of different sentences differ by more than noise


@pytest.mark.parametrize("name", ["tree", "lstm"])
def test_small_batches_and_chunks_change_nothing(
    name, encoder_called, sentences, tmp_path, monkeypatch
):
    encoder = encoder_called(name)
    whole = vectors_of(encoder, sentences, tmp_path / "whole")
    monkeypatch.setattr(encoding, "TOKENS", 30)
    monkeypatch.setattr(words, "CHUNK", 5)
    sizes = []
    run = SentenceEncoder.run
    monkeypatch.setattr(
        SentenceEncoder, "run", lambda self, x: sizes.append(len(x["id"])) or run(self, x)
    )
    np.testing.assert_allclose(vectors_of(encoder, sentences, tmp_path / "cut"), whole, **NOISE)
    assert sum(sizes) == len(sentences.texts) and len(sizes) > 3


def ids_of(encoder, text):
    """Return the numbers of the pieces of a text, without the end of the sentence."""
    dictionary = encoder.task.source_dictionary
    return [dictionary.index(piece) for piece in encoder.encode(text).split()]


@pytest.mark.parametrize("name", [*TRANSFORMERS, "lstm"])
def test_embeddings_are_the_mean_over_the_real_pieces(name, encoder_called, sentences, tmp_path):
    """It is their mean whatever the pooling."""
    encoder = encoder_called(name)
    table = encoder.encoder.embed_tokens.weight.detach().numpy()
    found = vectors_of(encoder, sentences, tmp_path, "end")[:, -1]
    unknown = encoder.task.source_dictionary.unk()
    for text, row in zip(sentences.texts, found, strict=True):
        ids = ids_of(encoder, text)
        assert unknown not in ids
        np.testing.assert_allclose(row[: table.shape[1]], table[ids].mean(axis=0), **NOISE)
        assert not row[table.shape[1] :].any()


@pytest.mark.parametrize("name", ["tree", "stock", "narrow"])
def test_layers_are_those_of_the_encoder(name, encoder_called, sentences, tmp_path):
    """Layer 0 is the input of the first layer, and the top is what the decoder reads."""
    encoder = encoder_called(name)
    trees = sentences.trees if encoder.reads_trees else None
    (sample,) = encoder.samples(encoder.segmented(sentences.texts, trees), trees)
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    with torch.no_grad():
        out = encoder.encoder(**fields, return_all_hiddens=True)
    inputs = [state.transpose(0, 1).numpy() for state in out["encoder_states"]]
    top = out["encoder_out"][0].transpose(0, 1).numpy()
    dictionary, tokens = encoder.task.source_dictionary, fields["src_tokens"].numpy()
    found = vectors_of(encoder, sentences, tmp_path)
    assert found.shape == (len(sentences.texts), 4, 32)  # the input, two layers, the embeddings
    for row, number in enumerate(sample["id"].tolist()):
        real = [k for k, t in enumerate(tokens[row]) if t > 3 and t != dictionary.pad()]
        assert len(real) == len(ids_of(encoder, sentences.texts[number]))
        for layer, states in enumerate((*inputs[:2], top)):
            expected = sum(states[row, k] for k in real) / len(real)
            np.testing.assert_allclose(found[number, layer], expected, **NOISE)


def test_a_layer_norm_at_the_end_belongs_to_the_top(encoder_called, sentences, tmp_path):
    encoder = encoder_called("narrow")
    norm = encoder.encoder.layer_norm
    found = vectors_of(encoder, sentences, tmp_path, "last")
    assert norm is not None
    with torch.no_grad():  # the norm of a norm with fresh weights is itself
        top = torch.tensor(np.array(found[:, 2]))
        torch.testing.assert_close(norm(top), top, rtol=1e-2, atol=1e-2)
        between = torch.tensor(np.array(found[:, 1]))
        assert (norm(between) - between).abs().max() > 0.1


def test_a_recurrent_encoder_shows_its_top_layer(encoder_called, sentences, tmp_path):
    encoder = encoder_called("lstm")
    found = vectors_of(encoder, sentences, tmp_path, "last")
    for number, text in enumerate(sentences.texts):
        tokens = torch.tensor([[*ids_of(encoder, text), encoder.task.source_dictionary.eos()]])
        with torch.no_grad():
            states = encoder.encoder(tokens, torch.tensor([tokens.shape[1]]))[0][:, 0]
        np.testing.assert_allclose(found[number, -2, :24], states[-2].numpy(), **NOISE)
