"""Mechanisms in the decoder's attention to the source: steps equal the whole, beams keep trees."""

import math
import re

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase

from fairseq_posattn.core.attention.registry import safe_across
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
from fairseq_posattn.fairseq_plugin.models.cross_attention import CrossAttention
from fairseq_posattn.inspection.attention import decoder_attention
from support.commands import FULL_TREE
from support.decoding import (
    check_kept_layers,
    check_printed_scores,
    check_resumed,
    encoded,
    move,
    shaken,
    steps,
    targets,
    with_brackets,
)
from support.in_process import batch, build, generate, train

EACH = [
    "window(size=3)",
    "window(size=5, ratio=0.8)",
    "window(size=3, across=3, heads=0|2)@1",
    "gaussian",
    "gaussian(ratio=1.3, heads=1)@0-1",
    "local_hard(reach=2)",
    "local_hard(heads=1|3)@1",
    "local_soft",
    "temperature",
    "tree_depth_bias",
    "tree_depth_bias(max=1, heads=0|3)@1",
    "tree_walk",
    "tree_walk@1",
]
ALL_BUT_WALK = "window(size=5, across=3) + gaussian + local_soft + temperature + tree_depth_bias"
ALL = ALL_BUT_WALK + " + tree_walk"
HARD = "local_hard(reach=3) + tree_depth_bias + temperature@0"
SPECIFICATIONS = [*EACH, ALL, HARD]
SIZES = ("--decoder-layers", "2", "--max-target-positions", "320")
STOCK = ("--arch", "transformer", *SIZES)
SENTENCES = (0, 3, 7, 9)
SHORT = 12  # the number of steps; the longest source has fewer pieces


def crossing(specification, *extra) -> tuple:
    return "--cross-attention", specification, *SIZES, *extra


@pytest.fixture(scope="module")
def toy_data(toy_data, tmp_path_factory):
    return with_brackets(toy_data, tmp_path_factory.mktemp("brackets"))


@pytest.fixture(scope="module")
def model_of(toy_data):
    """Makes the model of a specification; the command line is read once."""
    task, _, cfg = build(toy_data, *crossing("tree_depth_bias"))

    def make(specification, **sizes):
        args = plain_namespace(cfg.model)
        vars(args).update(cross_attention=specification, **sizes)
        return task, shaken(task.build_model(args))

    return make


@pytest.fixture(scope="module", params=SPECIFICATIONS)
def built(request, model_of):
    return model_of(request.param)


def test_every_mechanism_that_may_stand_there_is_tested():
    assert set(re.findall(r"(\w+)[ (@]", f"{' '.join(EACH)} ")) >= safe_across().keys()
    assert all(name in ALL + HARD for name in safe_across())


# What fairseq's beam search does: hypotheses change places within their sentence, or finished
# sentences leave the batch. It never lets sentences change places in a batch of the same size.
ORDERS = {(0, 3, 3, 3): [0, 3, 1, 1], SENTENCES: [3, 0, 1], (9, 7, 7, 0): [2, 1, 0]}


def assert_steps_equal_the_whole(task, model, tokens):
    """Half-way rows change places, with their sources, trees and cached keys."""
    for sentences, order in ORDERS.items():
        with torch.no_grad():
            state = encoded(task, model.eval(), sentences)
            single, whole, kept = steps(model, tokens, state, torch.tensor(order))
        real = kept != task.target_dictionary.pad()
        torch.testing.assert_close(single[real], whole[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [0, 3, 0, 3]], ids=["padded", "not_padded"])
def test_step_by_step_equals_the_whole(built, rows):
    task, model = built
    assert_steps_equal_the_whole(task, model, targets(task, SHORT)[rows])


def test_a_walk_in_a_target_without_brackets(model_of):
    """It goes on from the step before."""
    task, model = model_of("tree_walk")
    tokens = targets(task, SHORT)
    with torch.no_grad():
        walked = model.eval().decoder(tokens, encoder_out=encoded(task, model, SENTENCES))[0]
        model.decoder.target.pair = model.decoder.target.brackets = None
        assert_steps_equal_the_whole(task, model, tokens)
        after = model.decoder(tokens, encoder_out=encoded(task, model, SENTENCES))[0]
    assert not torch.allclose(walked, after, atol=1e-3)


@pytest.mark.parametrize("specification", [ALL, HARD, "tree_walk", "window(size=3)"])
def test_padding_before_the_target_is_not_counted(specification, model_of):
    """There are no absolute positions, because fairseq counts padding in steps only."""
    task, model = model_of(
        specification, no_token_positional_embeddings=True, decoder_attention="temperature"
    )
    tokens = targets(task, SHORT)
    tokens[0, :3] = tokens[3, :1] = task.target_dictionary.pad()
    assert_steps_equal_the_whole(task, model, tokens)
    with torch.no_grad():
        state = encoded(task, model, SENTENCES)
        padded = model.decoder(tokens, encoder_out=state)[0][0, 3:]
        first = model.encoder.reorder_encoder_out(state, torch.tensor([0]))
        bare = model.decoder(tokens[:1, 3:], encoder_out=first)[0][0]
    torch.testing.assert_close(padded, bare, atol=1e-5, rtol=0)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_padding_of_the_source_changes_nothing(specification, left, model_of):
    task, model = model_of(specification)
    tokens, model = targets(task, SHORT), model.eval()
    task.datasets.clear()
    task.cfg.left_pad_source = left
    try:
        together = batch(task, sentences=SENTENCES)
        sources = together["net_input"]["src_tokens"]
        assert (sources[:, 0] == task.source_dictionary.pad()).any() == left
        with torch.no_grad():
            of_batch = outputs(model, together, tokens)
            for row, sentence in enumerate(together["id"].tolist()):
                out = outputs(model, batch(task, sentences=[sentence]), tokens[row : row + 1])
                real = tokens[row] != task.target_dictionary.pad()
                torch.testing.assert_close(of_batch[row][real], out[0][real], atol=1e-5, rtol=0)
    finally:
        task.cfg.left_pad_source = True
        task.datasets.clear()


def outputs(model, sample, tokens):
    fields = {k: v for k, v in sample["net_input"].items() if k != "prev_output_tokens"}
    state = model.encoder(**fields)
    return model.decoder(tokens, encoder_out=state)[0]


def test_every_parameter_learns(built):
    task, model = built
    model.train().zero_grad()
    model(**batch(task)["net_input"])[0].square().mean().backward()
    for name, parameter in model.decoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("specification", [ALL, HARD], ids=["all", "hard"])
def test_low_precision(specification, model_of):
    task, model = model_of(specification)
    tokens = targets(task, SHORT)
    with torch.no_grad():
        expected = model.eval().decoder(tokens, encoder_out=encoded(task, model, SENTENCES))[0]
        state = encoded(task, model.bfloat16(), SENTENCES)
        single, whole, _ = steps(model, tokens, state, torch.arange(4))
    real = tokens != task.target_dictionary.pad()
    for logits in (single, whole):
        assert logits.dtype == torch.bfloat16
        torch.testing.assert_close(logits[real].float(), expected[real], atol=0.2, rtol=0)


# beside fairseq's own decoder


@pytest.fixture(scope="module")
def stock(toy_data):
    return build(toy_data, *STOCK, "--dropout", "0.1", "--attention-dropout", "0.1", seed=2).model


def test_without_the_option_it_is_the_stock_decoder(stock, model_of, toy_data):
    """So it is if a checkpoint of before does not know the option."""
    _, _, cfg = build(toy_data, *SIZES)
    args = plain_namespace(cfg.model)
    del args.cross_attention
    for model in (model_of("")[1], model_of("")[0].build_model(args)):
        assert {type(layer) for layer in model.decoder.layers} == {TransformerDecoderLayerBase}
        assert list(dict(model.named_parameters())) == list(dict(stock.named_parameters()))
        assert {type(layer.encoder_attn) for layer in model.decoder.layers} == {MultiheadAttention}


@pytest.mark.parametrize("specification", ["temperature", "temperature@1"])
def test_where_mechanisms_do_nothing_it_equals_the_stock_attention(specification, model_of, stock):
    """The layer without a mechanism, too, has attention of our own."""
    task, model = model_of(specification, dropout=0.1, attention_dropout=0.1)
    assert {type(layer.encoder_attn) for layer in model.decoder.layers} == {CrossAttention}
    for layer in model.decoder.layers:
        for mechanism in layer.encoder_attn.mechanisms.values():
            mechanism.set_neutral()
    model.load_state_dict(stock.state_dict(), strict=True)
    tokens = targets(task, SHORT)
    state, real = encoded(task, model.eval(), SENTENCES), tokens != task.target_dictionary.pad()
    (ours, extra), (theirs, of_stock) = (
        m.eval().decoder(tokens, encoder_out=state) for m in (model, stock)
    )
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(extra["attn"][0][real], of_stock["attn"][0][real])
    both = [model.decoder.layers[1], stock.decoder.layers[1]]
    names = [[getattr(m, "module_name", "") for m in x.modules()] for x in both]
    assert sorted(filter(None, names[0])) == sorted(filter(None, names[1]))  # of all dropouts


def test_weights_for_alignments(model_of):
    task, model = model_of("window(size=3)")
    state, tokens = encoded(task, model.eval(), SENTENCES), targets(task, SHORT)
    tokens = tokens[[0, 3, 0, 3]]  # without padding
    [mean] = model.decoder(tokens, encoder_out=state)[1]["attn"]
    each = model.decoder(tokens, encoder_out=state, alignment_heads=1)[1]["attn"][0]
    padding = state["encoder_padding_mask"][0]
    assert mean.shape == (4, SHORT, padding.size(1)) and not torch.allclose(mean, each)
    torch.testing.assert_close(mean.sum(-1), torch.ones(4, SHORT))
    assert (mean * padding[:, None] == 0).all()
    for row, length in enumerate((~padding).sum(1).tolist()):
        seen = mean[row][:, ~padding[row]] > 0
        for i in range(SHORT):  # beyond the end of the source its last pieces are seen
            centre = min(i, length - 1)
            expected = range(max(0, centre - 1), min(length, centre + 2))
            assert seen[i].nonzero()[:, 0].tolist() == list(expected)


def test_the_export_of_attention_shows_it(model_of):
    """posattn examples asks every layer for the weights of each head."""
    task, model = model_of("window(size=3)@1 + tree_depth_bias")
    sample = batch(task, "test", [0])
    _, crossing = decoder_attention(model.eval(), sample, sample["target"][0])
    layers, heads, queries, keys = crossing.shape
    assert (layers, heads, keys) == (2, 4, sample["net_input"]["src_tokens"].size(1))
    assert np.allclose(crossing.sum(-1), 1, atol=1e-5)
    far = np.abs(np.arange(keys) - np.minimum(np.arange(queries), keys - 1)[:, None]) > 1
    assert (crossing[1][:, far] == 0).all() and (crossing[0] > 0).all()


def test_only_mechanisms_that_read_trees_ask_for_them(toy_data):
    """New text is parsed for a model whose cross-attention alone reads trees."""
    for specification, wanted in (("tree_depth_bias@1", True), ("window", False)):
        task, model, _ = build(toy_data, *crossing(specification))
        assert model.encoder.needs_tree == task.needs_trees == wanted
        if wanted:
            fields = batch(task)["net_input"]
            with pytest.raises(InputError, match=r"cross-attention 'tree_depth_bias\(max=8\)@1'"):
                model.encoder(fields["src_tokens"], fields["src_lengths"])


# what cannot work

REFUSED = [
    ("window", {"cross_self_attention": True}, "cannot be combined with --cross-self-attention"),
    ("window", {"no_cross_attention": True}, "cannot be combined with --no-cross-attention"),
    ("window@2", {}, "window@2: the model has 2 layers, 0 to 1"),
    ("window(across=5)", {}, "across=5 is more than the 4 attention heads of the model"),
    ("gaussian(heads=4)", {}, "the model has 4 attention heads, 0 to 3"),
    ("window + window", {}, "'window' occurs twice in layer 0"),
    ("relative", {}, "'relative' relates pieces of the same sentence, .*takes: gaussian, local_h"),
    ("block", {}, "'block' acts before or after the attention"),
    ("tree_walk", {"checkpoint_activations": True}, "tree_walk.* omit --checkpoint-activations"),
]


@pytest.mark.parametrize("specification, sizes, message", REFUSED)
def test_what_cannot_work_is_refused(specification, sizes, message, model_of):
    with pytest.raises(SpecificationError, match=message):
        model_of(specification, **sizes)


def test_it_is_refused_before_the_training(toy_data, tmp_path, capsys):
    result = train(toy_data, tmp_path, *crossing("tree_relative"), check=False)
    said = result.message + capsys.readouterr().err
    assert "'tree_relative' relates pieces of the same sentence" in said
    assert not list(tmp_path.iterdir())


def test_trees_need_a_task_that_loads_them(toy_data, tmp_path):
    chosen = (*crossing("tree_depth_bias"), "--task", "translation")
    result = train(toy_data, tmp_path, *chosen, check=False)
    assert "cross-attention 'tree_depth_bias(max=8)' reads trees" in result.message
    assert "use --task structured_translation" in result.message


# checkpoints


@pytest.mark.parametrize("specification", ["window", "gaussian@1", ALL])
def test_a_stock_checkpoint_loads(specification, stock, model_of, caplog):
    """As fairseq loads it, also for --finetune-from-model; what was added starts anew."""
    _, model = model_of(specification, decoder_attention="relative@1")
    start = {key: value.clone() for key, value in model.state_dict().items()}
    taken = stock.state_dict()
    model.load_state_dict(dict(taken), strict=True)
    for key, value in model.state_dict().items():
        assert torch.equal(value, taken.get(key, start[key])), key
    added = [key for key in start if ".encoder_attn.mechanisms." in key and key not in taken]
    assert bool(added) == (specification != "window") == ("layers.1.encoder_a" in caplog.text)


def test_a_checkpoint_with_other_mechanisms_loads_too(model_of):
    """Parameters of the decoder's self-attention are kept; those of other cross-attention do not
    fit."""
    before = model_of("", decoder_attention="gaussian")[1].state_dict()
    model = model_of("gaussian", decoder_attention="gaussian")[1]
    model.load_state_dict(dict(before), strict=True)
    assert all(torch.equal(model.state_dict()[key], value) for key, value in before.items())
    with pytest.raises(RuntimeError, match="Missing key"):
        model_of("gaussian + temperature", decoder_attention="gaussian")[1].load_state_dict(
            model.state_dict(), strict=True
        )


@pytest.mark.long
def test_resuming_and_activation_checkpointing_change_nothing(toy_data, tmp_path):
    # tree_walk refuses --checkpoint-activations
    chosen = (*crossing(ALL_BUT_WALK), *FULL_TREE, "--dropout", "0.1", "--disable-validation")
    check_resumed(toy_data, tmp_path, chosen)


def test_layers_are_dropped_and_kept(toy_data, model_of, tmp_path):
    """Each layer keeps its own mechanism, in training and after it."""
    chosen = crossing("tree_depth_bias(max=1)@0 + gaussian@2", "--decoder-layers", "3")
    train(toy_data, tmp_path, *chosen, "--decoder-layerdrop", "0.5", "--disable-validation")
    task, _ = model_of("")
    check_kept_layers(tmp_path / "checkpoint_last.pt", task, ("0", "1,2", "2"))


# through fairseq's programs


@pytest.fixture(scope="module")
def runs(toy_data, tmp_path_factory):
    """Return a folder of checkpoints: `all` and `hard`, trained and then moved away from neutral;
    `stock`."""
    folder = tmp_path_factory.mktemp("runs")
    updates = ("--lr", "1e-2", "--disable-validation", "--max-update")
    train(toy_data, folder / "all", *crossing(ALL), *updates, "40")
    train(toy_data, folder / "hard", *crossing(HARD), *FULL_TREE, *updates, "40")
    train(toy_data, folder / "stock", *STOCK, *updates, "10")
    for name in ("all", "hard"):
        move(folder / name / "checkpoint_last.pt", r"\.encoder_attn\.mechanisms\.")
    return folder


TRANSLATING = {
    "greedy": ("--beam", "1"),
    "beam": ("--beam", "5"),
    "hard": ("--beam", "5"),
    "prefix": ("--beam", "3", "--prefix-size", "3"),
    "reference": ("--score-reference",),
    "ensemble": ("--beam", "5"),
}
MODELS = {"hard": ["hard"], "ensemble": ["all", "stock", "hard"]}


@pytest.mark.long(but=["beam"])
@pytest.mark.parametrize("kind", TRANSLATING)
def test_printed_scores_are_those_of_the_whole(kind, runs, toy_data, model_of):
    paths = [f"{runs / name}/checkpoint_last.pt" for name in MODELS.get(kind, ["all"])]
    given = {"prefix": 3, "reference": 99}.get(kind, 0)
    task, _ = model_of("tree_depth_bias")
    check_printed_scores(toy_data, paths, task, TRANSLATING[kind], given, different=5)


def test_alignments_are_printed(runs, toy_data):
    path = runs / "all/checkpoint_last.pt"
    output = generate(toy_data, path, "--print-alignment", "hard", "--beam", "3").output
    alignments = dict(re.findall(r"^A-(\d+)\t(.*)$", output, re.M))
    assert len(alignments) == 60
    pairs = [pair.split("-") for text in alignments.values() for pair in text.split()]
    # a window of five pieces, across heads, so no word lies further from the diagonal than two
    assert len(pairs) > 100 and all(int(source) <= int(target) + 2 for source, target in pairs)


def test_the_option_is_stored_in_full(runs):
    saved = checkpoint_utils.load_checkpoint_to_cpu(str(runs / "all/checkpoint_last.pt"))
    stored = saved["cfg"]["model"].cross_attention
    assert stored.startswith("window(size=5, across=3, ratio=1.0) + gaussian(ratio=1.0) + local_so")
    assert math.isfinite(saved["extra_state"]["train_iterator"]["epoch"])
