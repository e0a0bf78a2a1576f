"""Mechanisms in the decoder's self-attention: nothing later is seen, steps equal the whole."""

import math
import re
from unittest import mock

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase

from fairseq_posattn.core.attention import MECHANISMS, window
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
from fairseq_posattn.fairseq_plugin.models.decoder import CausalSelfAttention
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
from support.in_process import batch, build, generate, hypotheses_and_scores, train

EACH = [
    "window(size=5)",
    "window(size=3, across=3)",
    "window(size=3, across=3, heads=0|2)@1",
    "relative(max=2)",
    "relative(max=2, shared_heads=false, heads=1|3)",
    "direct_absolute@0-1",
    "direct_relative(t=4)@0-1",
    "direct_relative(symmetric=true)@0-1",
    "temperature",
    "gaussian",
    "alibi",
    "alibi(sides=learnt, offset=1.0)",
    "t5_bias(buckets=8, max=6)",
    "t5_bias(shared=nothing, scaled=false)@1",
    "rope",
    "rope(layout=halves, heads=1|3)",
    "disentangled(max=4)",
    "brackets(max=3)",
    "brackets(max=1, shared_heads=false)@1",
]
LONG_WINDOWS = ["window(size=5)", "window(size=3, across=3) + temperature", "window(size=75)@0"]
ALL = "window(size=3, across=3) + relative(max=2) + temperature + gaussian"
ALL += " + direct_absolute + direct_relative + alibi + t5_bias + rope + disentangled"
SPECIFICATIONS = [*EACH, "window(size=3) + gaussian(heads=1) + direct_absolute(heads=0-2)@1", ALL]
SAFE = {name for name, mechanism in MECHANISMS.items() if mechanism.causal_safe}
SIZES = ("--decoder-layers", "2", "--max-target-positions", "320")
STOCK = ("--arch", "transformer", *SIZES)
ENCODER = ("--encoder-attention", "relative(max=3) + window(across=3)@1")
SENTENCES = (0, 3, 7, 9)
SHORT, FAR = 12, 300  # the number of steps
TABLES = ("--max-target-positions", "48")
BRACKETS = "brackets(max=3, shared_heads=false) + temperature"


def decoding(specification, *extra) -> tuple:
    return "--decoder-attention", specification, *SIZES, *extra


@pytest.fixture(scope="module")
def toy_data(toy_data, tmp_path_factory):
    return with_brackets(toy_data, tmp_path_factory.mktemp("brackets"))


@pytest.fixture(scope="module")
def model_of(toy_data):
    """Makes the model of a specification; the command line is read once."""
    task, _, cfg = build(toy_data, *SIZES)

    def make(specification, **sizes):
        args = plain_namespace(cfg.model)
        vars(args).update(decoder_attention=specification, **sizes)
        return task, shaken(task.build_model(args))

    return make


@pytest.fixture(scope="module", params=SPECIFICATIONS)
def built(request, model_of):
    return model_of(request.param)


def test_every_mechanism_that_may_stand_in_a_decoder_is_tested():
    assert set(re.findall(r"(\w+)[ (@]", f"{' '.join(EACH)} ")) >= SAFE
    assert all(name in ALL + BRACKETS for name in SAFE)


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_later_words_change_nothing(built, mode):
    task, model = built
    assert_causal(task, getattr(model, mode)(), SHORT)


def assert_causal(task, model, length):
    tokens, others, cut = targets(task, length), targets(task, length, seed=4), 2 * length // 3
    others[:, :cut] = tokens[:, :cut]
    others[0, cut + 1 :] = task.target_dictionary.pad()
    with torch.no_grad():
        state = encoded(task, model, SENTENCES)
        before, after = (model.decoder(x, encoder_out=state)[0] for x in (tokens, others))
    torch.testing.assert_close(after[:, :cut], before[:, :cut], atol=1e-5, rtol=0)
    assert (after[3, cut] - before[3, cut]).abs().max() > 1e-3  # the last one that has an effect


def assert_steps_equal_the_whole(task, model, tokens):
    """Hypotheses of fairseq's beam search change places within their sentence."""
    with torch.no_grad():
        state = encoded(task, model.eval(), (0, 3, 3, 3))
        single, whole, tokens = steps(model, tokens, state, torch.tensor([0, 3, 1, 1]))
    real = tokens != task.target_dictionary.pad()
    torch.testing.assert_close(single[real], whole[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [0, 3, 0, 3]], ids=["padded", "not_padded"])
def test_step_by_step_equals_the_whole(built, rows):
    task, model = built
    assert_steps_equal_the_whole(task, model, targets(task, SHORT)[rows])


@pytest.mark.parametrize("specification", [ALL, "direct_absolute@0-1", "window(size=3)"])
def test_padding_of_earlier_steps_stays_unseen(specification, model_of):
    """The padding is on the left. There are no absolute positions, because fairseq counts padding
    in steps only."""
    task, model = model_of(specification, no_token_positional_embeddings=True)
    tokens = targets(task, SHORT)
    tokens[0, :3] = tokens[3, :1] = task.target_dictionary.pad()
    assert_steps_equal_the_whole(task, model, tokens)


@pytest.mark.parametrize("specification", ["relative", ""])
def test_hypotheses_that_stay_are_not_copied(specification, model_of):
    task, model = model_of(specification)
    decoder, kept, tokens = model.decoder.eval(), {}, targets(task, SHORT)
    with torch.no_grad():
        decoder(tokens[:, :1], encoder_out=encoded(task, model, SENTENCES), incremental_state=kept)
    keys = decoder.layers[-1].self_attn._get_input_buffer(kept)["prev_key"]
    for order, same in (
        ([0, 1, 2, 3], True),
        ([0, 1, 3, 2], False),
        ([0, 1, 2], False),
        ([0], False),
    ):
        expected = keys[order]
        decoder.reorder_incremental_state_scripting(kept, torch.tensor(order))
        found = decoder.layers[-1].self_attn._get_input_buffer(kept)["prev_key"]
        assert torch.equal(found, expected) and (found is keys) == same
        keys = found


@pytest.mark.parametrize("specification", LONG_WINDOWS)
def test_long_targets(specification, model_of, monkeypatch):
    """Windows work block by block on them, but not in steps."""
    blockwise = mock.Mock(wraps=window.windowed_attention)
    monkeypatch.setattr(window, "windowed_attention", blockwise)
    task, model = model_of(specification, decoder_layers=1)
    assert_causal(task, model.train(), FAR)
    assert_steps_equal_the_whole(task, model, targets(task, FAR))
    assert blockwise.call_count == 3


def test_every_parameter_learns(built):
    task, model = built
    model.train().zero_grad()
    model(**batch(task)["net_input"])[0].square().mean().backward()
    for name, parameter in model.decoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("specification", [ALL, LONG_WINDOWS[1]], ids=["all", "window"])
def test_low_precision(specification, precision, model_of):
    if precision == torch.float16 and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    task, model = model_of(specification)
    model.eval()
    short, long = (targets(task, length) for length in (SHORT, FAR))
    with torch.no_grad():
        state = encoded(task, model, SENTENCES)
        expected = [model.decoder(tokens, encoder_out=state)[0] for tokens in (short, long)]
        state = encoded(task, model.to(precision), SENTENCES)
        single, whole, _ = steps(model, short, state, torch.arange(4))
        given = [single, whole, model.decoder(long, encoder_out=state)[0]]
    for logits, tokens, at in zip(given, (short, short, long), (0, 0, 1), strict=True):
        assert logits.dtype == precision and torch.isfinite(logits).all()
        real = tokens != task.target_dictionary.pad()
        torch.testing.assert_close(logits[real].float(), expected[at][real], atol=0.2, rtol=0)


# beside fairseq's own decoder


@pytest.fixture(scope="module")
def stock(toy_data):
    return build(toy_data, *STOCK, "--dropout", "0.1", "--attention-dropout", "0.1", seed=2).model


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_without_mechanisms_it_is_the_stock_decoder(mode, stock, model_of):
    """This also holds beside an encoder with mechanisms, in train mode with dropout."""
    task, model = model_of("", encoder_attention="relative", dropout=0.1, attention_dropout=0.1)
    assert {type(layer) for layer in model.decoder.layers} == {TransformerDecoderLayerBase}
    model.decoder.load_state_dict(stock.decoder.state_dict(), strict=True)
    state, tokens, outputs = encoded(task, model.eval(), SENTENCES), targets(task, SHORT), []
    for decoder in (stock.decoder, model.decoder):
        getattr(decoder, mode)()
        torch.manual_seed(3)
        outputs.append(decoder(tokens, encoder_out=state)[0])
    assert torch.equal(*outputs)


def test_a_mechanism_in_one_layer(model_of):
    _, model = model_of("relative@1")
    first, second = model.decoder.layers
    assert type(first) is TransformerDecoderLayerBase
    assert isinstance(second.self_attn, CausalSelfAttention)
    assert list(second.self_attn.mechanisms) == ["relative"]
    first.self_attn.dropout_module = second.self_attn.dropout_module  # both MultiheadAttention
    names = [[getattr(m, "module_name", "") for m in x.children()] for x in (first, second)]
    assert names[0] == names[1]  # --retain-dropout-modules reaches both


def test_where_mechanisms_do_nothing_it_equals_the_stock_attention(model_of):
    (task, model), (_, stock) = model_of("temperature"), model_of("")
    for layer in model.decoder.layers:
        torch.nn.init.ones_(layer.self_attn.mechanisms["temperature"].gamma)
    same = {key: value for key, value in model.state_dict().items() if ".mechanisms." not in key}
    stock.load_state_dict(same, strict=True)
    tokens = targets(task, SHORT)
    tokens[0, :3] = task.target_dictionary.pad()  # on the left, as of --left-pad-target
    state, real = encoded(task, model.eval(), SENTENCES), tokens != task.target_dictionary.pad()
    ours, theirs = (m.eval().decoder(tokens, encoder_out=state)[0] for m in (model, stock))
    assert torch.isfinite(ours[real]).all()
    if torch.__version__ < "2.5":  # which makes NaN of a sentence with padding on the left
        real[0] = False
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - SAFE))
def test_what_looks_ahead_is_refused(name, model_of):
    with pytest.raises(SpecificationError) as refusal:
        model_of(f"relative + {name}")
    reason = "reads trees" if MECHANISMS[name].needs_tree else "depends on words"
    if name in ("block", "cnn", "tree_gcn"):
        reason = "acts before or after the attention"
    assert f"'{name}' {reason}" in str(refusal.value)
    assert ", ".join(sorted(SAFE)) in str(refusal.value)


REFUSED = [
    ("window", {"cross_self_attention": True}, "cannot be combined with --cross-self-attention"),
    ("window@1", {"decoder_xformers_att_config": "{}"}, "combined with --decoder-xformers-att"),
    ("relative@2", {}, "relative@2: the model has 2 layers, 0 to 1"),
    ("window(across=5)", {}, "across=5 is more than the 4 attention heads of the model"),
    ("gaussian(heads=4)", {}, "the model has 4 attention heads, 0 to 3"),
    ("direct_absolute(t=10)", {}, "t=10 has no score .* 320 .*--max-source-positions 10 .*target"),
    ("window + window", {}, "'window' occurs twice in layer 0"),
]


@pytest.mark.parametrize("specification, sizes, message", REFUSED)
def test_what_cannot_work_is_refused(specification, sizes, message, model_of):
    with pytest.raises(SpecificationError, match=message):
        model_of(specification, **sizes)


def test_it_is_refused_before_the_training(toy_data, tmp_path):
    result = train(toy_data, tmp_path, *decoding("block"), check=False)
    assert "'block' acts before or after the attention" in result.message
    assert not list(tmp_path.iterdir())


# the attention behind fairseq's interface


@pytest.mark.parametrize("specification", [ALL, "window(size=3, across=3)", "relative"])
def test_weights(specification, model_of):
    attention = model_of(specification)[1].decoder.layers[0].self_attn.eval()
    x, padding = torch.randn(7, 3, 32), torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = True
    given = {"attn_mask": torch.full((7, 7), -math.inf).triu(1), "key_padding_mask": padding}
    out, none = attention(x, x, x, **given)
    same, weights = attention(x, x, x, need_head_weights=True, **given)
    _, mean = attention(x, x, x, need_weights=True, **given)
    assert none is None and weights.shape == (4, 3, 7, 7)
    torch.testing.assert_close(same[~padding.T], out[~padding.T])
    torch.testing.assert_close(weights.mean(0), mean)
    assert (weights.triu(1) == 0).all() and (weights[:, 1, :, 5:] == 0).all()
    assert (weights.tril(-2) == 0).all() == ("window" in specification)
    torch.testing.assert_close(weights.sum(-1)[:, ~padding], torch.ones(4, 19))


@pytest.mark.parametrize("given", [2, 3])
def test_a_state_of_before_may_be_handed_in(given, model_of):
    """fairseq's `prev_self_attn_state` holds keys, values and perhaps their padding."""
    _, model = model_of(ALL)
    layer, x, memory = model.decoder.layers[0].eval(), torch.randn(7, 3, 32), {}
    for step in range(6):
        layer(x[step : step + 1], incremental_state=memory)
    # fairseq has no public name for what a step keeps
    before = layer.self_attn._get_input_buffer(memory)
    assert before["prev_key"].shape == (3, 4, 6, 8)  # B H S D, as in fairseq
    padding = torch.zeros(3, 6, dtype=torch.bool)
    state = [before["prev_key"].clone(), before["prev_value"].clone(), padding][:given]
    expected = layer(x[6:], incremental_state=memory)[0]
    handed_in = layer(x[6:], incremental_state={}, prev_self_attn_state=state)[0]
    torch.testing.assert_close(handed_in, expected)


# checkpoints


@pytest.mark.parametrize("specification", ["window", "relative@1", ALL])
def test_a_stock_checkpoint_loads(specification, stock, model_of, caplog):
    """As fairseq loads it, also for --finetune-from-model; what was added starts anew."""
    _, model = model_of(specification, encoder_attention="relative(max=3) + window(across=3)@1")
    start = {key: value.clone() for key, value in model.state_dict().items()}
    taken = stock.state_dict()
    model.load_state_dict(dict(taken), strict=True)
    for key, value in model.state_dict().items():
        assert torch.equal(value, taken.get(key, start[key])), key
    added = [key for key in start if key.startswith("decoder") and key not in taken]
    assert bool(added) == (specification != "window") == ("decoder.layers.1.self" in caplog.text)


@pytest.mark.long
def test_resuming_and_activation_checkpointing_change_nothing(toy_data, tmp_path):
    chosen = (*decoding(ALL), *ENCODER, "--dropout", "0.1", "--disable-validation", *TABLES)
    check_resumed(toy_data, tmp_path, chosen)


def test_layers_are_dropped_and_kept(toy_data, model_of, tmp_path):
    """Each layer keeps its own mechanism, in training and after it."""
    chosen = decoding("relative(max=1)@0 + relative(max=2)@2", "--decoder-layers", "3")
    train(toy_data, tmp_path, *chosen, "--decoder-layerdrop", "0.5", "--disable-validation")
    task, _ = model_of("")
    check_kept_layers(tmp_path / "checkpoint_last.pt", task, ("0", "0,1", "1,2", "2"))


# through fairseq's programs


@pytest.fixture(scope="module")
def runs(toy_data, tmp_path_factory):
    """Return a folder of checkpoints: `ours` and `brackets`, trained and then moved away from
    neutral; `stock`."""
    folder = tmp_path_factory.mktemp("runs")
    updates = ("--lr", "1e-2", "--disable-validation", *TABLES, "--max-update")
    train(toy_data, folder / "ours", *decoding(ALL), *ENCODER, *updates, "40")
    train(toy_data, folder / "brackets", *decoding(BRACKETS), *ENCODER, *updates, "40")
    train(toy_data, folder / "stock", *STOCK, *updates, "10")
    for name in ("ours", "brackets"):
        move(folder / name / "checkpoint_last.pt", r"^decoder\..*\.mechanisms\.")
    return folder


TRANSLATING = {
    "greedy": ("--beam", "1"),
    "beam": ("--beam", "3"),
    "brackets": ("--beam", "3"),
    "prefix": ("--beam", "3", "--prefix-size", "3"),
    "reference": ("--score-reference",),
    "ensemble": ("--beam", "3"),
}


@pytest.mark.long(but=["greedy", "brackets"])
@pytest.mark.parametrize("kind", TRANSLATING)
def test_printed_scores_are_those_of_the_whole(kind, runs, toy_data, model_of):
    names = {"ensemble": ["ours", "stock"], "brackets": ["brackets"]}.get(kind, ["ours"])
    paths = [f"{runs / name}/checkpoint_last.pt" for name in names]
    given = {"prefix": 3, "reference": 99}.get(kind, 0)
    task, _ = model_of("")
    check_printed_scores(toy_data, paths, task, TRANSLATING[kind], given, different=10)


def test_translations_may_be_as_long_as_the_tables(runs, toy_data):
    """No step reaches beyond the longest target, for which direct_absolute has a score."""
    path = runs / "ours/checkpoint_last.pt"
    longest = ("--min-len", "30", "--max-len-b", "500", "--beam", "1", "--gen-subset", "valid")
    output = generate(toy_data, path, *longest, "--batch-size", "60").output
    lengths = {len(text.split()) for text, _ in hypotheses_and_scores(output).values()}
    assert min(lengths) >= 30 and max(lengths) == 47
