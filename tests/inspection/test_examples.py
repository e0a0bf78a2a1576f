"""Examples with attention: what the model computes, the trees of the data, clear errors."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.attention import encoder_attention
from fairseq_posattn.inspection.examples import examples
from fairseq_posattn.inspection.model import ExampleRequest, load
from fairseq_posattn.inspection.sentence import read_trees
from fairseq_posattn.report.report import ShownExample
from fairseq_posattn.scoring.inspection_record import read_examples
from fairseq_posattn.trees.conllu import read_conllu
from support.commands import FULL_TREE, make_toy_data
from support.in_process import batch, end_of, generate, hypotheses_and_scores, train

NUMBERS = [17, 0, 5]
KINDS = {
    "tree": FULL_TREE,
    "plain": ["--encoder-attention", "relative"],
    "stock": ["--arch", "transformer"],
    "convolved": ["--encoder-attention", "convolved_2d"],
}


@pytest.fixture(scope="module")
def models(toy_data, tmp_path_factory):
    """Train a checkpoint of each kind of model."""
    folder = tmp_path_factory.mktemp("models")
    for kind, chosen in KINDS.items():
        options = [*chosen, "--max-update", "20", "--lr", "5e-3", "--disable-validation"]
        train(toy_data, folder / kind, *options)
    return {kind: folder / kind / "checkpoint_last.pt" for kind in KINDS}


@pytest.fixture(scope="module")
def conllu(toy_data):
    return toy_data.parent / "raw/test.src.conllu"


@pytest.fixture(scope="module")
def trees(conllu):
    return list(read_conllu(conllu))


def made(data, checkpoint, numbers=NUMBERS, **options):
    options |= {"data": str(data), "path": checkpoint, "sentences": numbers}
    return examples(ExampleRequest(**options, beam=2, cpu=True))


@pytest.fixture(scope="module")
def found(toy_data, models):
    return {kind: made(toy_data, checkpoint) for kind, checkpoint in models.items()}


def unpacked(attention):
    numbers = np.frombuffer(base64.b64decode(attention["weights"]), np.uint8)
    shape = [attention[key] for key in ("layers", "heads", "queries", "keys")]
    return numbers.reshape(shape) * attention.get("largest", 1) / 255


@pytest.mark.long(ci=True)
@pytest.mark.parametrize("kind", KINDS)
def test_fit_for_the_report(found, kind, tmp_path):
    """What a file would hold, and in the order that was asked for."""
    (tmp_path / "examples.json").write_text(json.dumps(found[kind]))
    read = read_examples(tmp_path / "examples.json")
    assert [example.number for example in read] == NUMBERS
    assert all(ShownExample(one, "", 0).tree is None for one in read) == (kind != "tree")


def test_words_and_trees_of_the_data(found, trees, toy_data):
    pieces = (toy_data.parent / "test.src").read_text().splitlines()
    for example in found["tree"]:
        sentence = trees[example["number"]]
        assert example["words"] == sentence.words
        assert example["parents"] == sentence.parents
        assert example["pieces"] == [*pieces[example["number"]].split(), "</s>"]


@pytest.mark.parametrize("kind", ["plain", "stock"])
def test_without_trees_words_from_pieces(found, trees, kind):
    for example in found[kind]:
        assert example["words"] == trees[example["number"]].words
        assert (example["parents"], example["depths"], example["relations"]) == (None,) * 3


@pytest.mark.parametrize("kind", ["tree", "plain", "convolved"])
def test_attention_is_the_model_s(found, models, toy_data, kind):
    """The example has the attention of the sentence among others, without the padding."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(models[kind])], arg_overrides={"data": str(toy_data)}
    )
    numbers = sorted(range(60), key=lambda k: k in NUMBERS)[-3:] + [1, 2]
    sample = batch(task, "test", numbers)
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    with torch.no_grad():
        weights = model.eval().encoder(**fields, need_weights=True)["attention_weights"]
    for example in found[kind]:
        row = sample["id"].tolist().index(example["number"])
        length = len(example["pieces"])
        expected = torch.stack([of_layer[row] for of_layer in weights])[..., -length:, -length:]
        step = example["attention"].get("largest", 1) / 255
        assert np.abs(unpacked(example["attention"]) - expected.numpy()).max() <= 0.51 * step


@pytest.mark.parametrize("kind", ["plain", "stock", "convolved"])
def test_attention_of_the_decoder(found, models, toy_data, kind):
    """The maps equal explicit softmaxes of the decoder's own queries and keys."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(models[kind])], arg_overrides={"data": str(toy_data)}
    )
    task.load_dataset("test")
    example = found[kind][0]
    dictionary, sample = task.target_dictionary, batch(task, "test", [example["number"]])
    written = [dictionary.index(piece) for piece in example["target_pieces"]]
    read = torch.tensor([[dictionary.eos(), *written[:-1]]])
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    layer, seen = model.eval().decoder.layers[0], {}
    for name in ("self_attn", "encoder_attn"):
        getattr(layer, name).register_forward_pre_hook(
            lambda _, arguments, options, name=name: seen.update({name: options}), with_kwargs=True
        )
    with torch.no_grad():
        model.decoder(read, encoder_out=model.encoder(**fields))
        for name, key in (("self_attn", "decoder_attention"), ("encoder_attn", "cross_attention")):
            module, given = getattr(layer, name), seen[name]
            heads = module.num_heads
            q = module.q_proj(given["query"])[:, 0].view(len(written), heads, -1)
            k = module.k_proj(given["key"])[:, 0].view(len(given["key"]), heads, -1)
            for head in range(heads):
                scores = q[:, head] @ k[:, head].T / q.size(-1) ** 0.5
                if name == "self_attn":
                    late = torch.ones_like(scores).triu(1).bool()
                    scores = scores.masked_fill(late, -torch.inf)
                expected = scores.softmax(-1).numpy()
                assert np.abs(unpacked(example[key])[0, head] - expected).max() <= 0.51 / 255


def test_attention_of_a_stock_model(found, models, toy_data):
    """It equals that of our model with the same parameters, and the encoder is left as it was."""
    ours = load(models["plain"], str(toy_data))
    stock = load(models["stock"], str(toy_data))
    encoder, own = stock.model.encoder, ours.model.encoder
    own.load_state_dict(encoder.state_dict(), strict=False)
    for layer in own.layers:
        for mechanism in layer.self_attn.mechanisms.parameters():
            torch.nn.init.zeros_(mechanism)
    stock.task.load_dataset("test")
    sample = batch(stock.task, "test", [17])
    before = encoder(sample["net_input"]["src_tokens"])["encoder_out"][0]
    first = encoder_attention(stock.model, sample)
    second = encoder_attention(ours.model, sample)
    np.testing.assert_allclose(first, second, atol=1e-5)
    after = encoder(sample["net_input"]["src_tokens"])["encoder_out"][0]
    torch.testing.assert_close(before, after)
    close = unpacked(found["stock"][0]["attention"])
    np.testing.assert_allclose(close, first, atol=0.51 / 255)


@pytest.mark.parametrize("kind", ["tree", "stock"])
def test_translations_are_fairseqs(found, models, toy_data, kind):
    output = generate(toy_data, models[kind], "--remove-bpe").output
    expected = hypotheses_and_scores(output)
    targets = (toy_data.parent / "raw/test.tgt").read_text().splitlines()
    for example in found[kind]:
        assert example["translation"] == expected[example["number"]][0]
        assert example["reference"] == targets[example["number"]]


@pytest.mark.parametrize("kind", ["tree", "stock"])
def test_relations_from_a_file(models, toy_data, conllu, trees, kind):
    (example,) = made(toy_data, models[kind], [5], trees=str(conllu))
    rows = [line.split("\t") for line in conllu.read_text().split("\n\n")[5].split("\n")]
    assert example["relations"] == [row[7] for row in rows if len(row) > 1]
    assert example["words"] == trees[5].words
    assert example["parents"] == trees[5].parents


def test_relations_of_words_only(tmp_path):
    """Multiword tokens and empty nodes have none, and neither has a file without any."""
    rows = ["1-2 im _ _", "1 in 3 case", "2 dem 3 det", "2.1 und _ cc", "3 Haus 0 root"]
    lines = ["# text = im Haus"]
    for number, form, head, relation in map(str.split, rows):
        lines.append("\t".join([number, form, *"____", head, relation, "_", "_"]))
    text = "\n".join(lines) + "\n\n"
    (tmp_path / "one.conllu").write_text(text)
    found = read_trees(str(tmp_path / "one.conllu"), [0])[0]
    assert (found.words, found.relations) == (["in", "dem", "Haus"], ["case", "det", "root"])
    assert (found.parents, str(found)) == ([3, 3, 0], "im Haus")
    (tmp_path / "one.conllu").write_text(re.sub("case|det|root", "_", text))
    assert read_trees(str(tmp_path / "one.conllu"), [0])[0].relations is None


def test_references_from_a_file(models, toy_data, tmp_path):
    path = tmp_path / "references"
    path.write_text("".join(f"reference {k}\n" for k in range(60)))
    (example,) = made(toy_data, models["plain"], [5], references=str(path))
    assert example["reference"] == "reference 5"


# errors


@pytest.mark.parametrize("number", [-1, 60])
def test_no_such_sentence(models, toy_data, number):
    message = rf"test has 60 .* none with the number {number}; .* 0 to 59, as in fairseq's S-59"
    with pytest.raises(InputError, match=message):
        made(toy_data, models["plain"], [0, number])


@pytest.mark.parametrize("option", ["trees", "references"])
def test_a_file_that_is_too_short(models, toy_data, conllu, tmp_path, option):
    path = tmp_path / "short"
    first = conllu.read_text().split("\n\n")[0]
    path.write_text(f"{first}\n" if option == "trees" else "one\n")
    with pytest.raises(InputError, match="short has 1 sentences, but none with the number 5"):
        made(toy_data, models["plain"], [5], **{option: str(path)})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("tree", r"conllu:\d+: the tree of sentence 5 differs from that in the data"),
        ("stock", r"conllu:\d+: sentence 5 is '.+' here, but '.+' in the data; use the"),
    ],
)
def test_trees_of_other_sentences(models, toy_data, conllu, tmp_path, kind, message):
    path = tmp_path / "shifted.conllu"
    path.write_text("\n\n".join(conllu.read_text().split("\n\n")[7:]))
    with pytest.raises(InputError, match=message):
        made(toy_data, models[kind], [5], trees=str(path))


@pytest.mark.long
def test_data_of_another_vocabulary(models, tmp_path):
    make_toy_data(tmp_path / "other", train=60, dev=10, test=10)
    with pytest.raises(
        InputError,
        match=r"dict.src.txt: the model was trained with another dictionary of the source",
    ):
        made(tmp_path / "other/data", models["plain"], [0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--path", "nothing.pt"], "error: nothing.pt: there is no such checkpoint"),
        (["--gen-subset", "dev"], "error: Dataset not found: dev"),
        (["nowhere"], "error: nowhere: there is no such folder"),
    ],
)
def test_what_is_not_there(models, toy_data, tmp_path, changes, message):
    data = [] if changes == ["nowhere"] else [toy_data]
    options = ["--path", models["plain"], "--sentences", 0, "--out", tmp_path / "examples.json"]
    assert end_of("examples", *data, *options, *changes).startswith(message)
    assert not (tmp_path / "examples.json").exists()


def test_command(found, models, toy_data, monkeypatch, tmp_path):
    """It runs from another folder, with the data named from there."""
    monkeypatch.chdir(toy_data.parent)
    out = tmp_path / "examples.json"
    arguments = ["./data", "--path", models["tree"], "--beam", 2, "--out", out]
    end_of("examples", *arguments, "--sentences", *NUMBERS)
    assert json.loads(out.read_text(encoding="utf-8")) == found["tree"]
