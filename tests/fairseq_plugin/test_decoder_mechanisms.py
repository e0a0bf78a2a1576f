"""Positions and attention of a decoder: nothing later is seen, and steps equal the whole."""

import re

import pytest
import torch
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase

from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.core.attention.registry import safe_across
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
from support import own_classes
from support.commands import FULL_TREE
from support.decoding import (
    SENTENCES,
    SHORT,
    SIZES,
    STOCK,
    assert_causal,
    assert_steps_equal_the_whole,
    check_kept_layers,
    check_printed_scores,
    check_resumed,
    encoded,
    move,
    steps,
    targets,
    with_option,
)
from support.in_process import batch, build, generate, hypotheses_and_scores, train

SELF = [
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
SELF_ALL = "window(size=3, across=3) + relative(max=2) + temperature + gaussian"
SELF_ALL += " + direct_absolute + direct_relative + alibi + t5_bias + rope + disentangled"
BRACKETS = "brackets(max=3, shared_heads=false) + temperature"
SELF_SOME = "window(size=3) + gaussian(heads=1) + direct_absolute(heads=0-2)@1"
CROSS = [
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
    "tree_walk(follow=true)",
    "tree_walk@1",
]
ALL_BUT_WALK = "window(size=5, across=3) + gaussian + local_soft + temperature + tree_depth_bias"
CROSS_ALL = ALL_BUT_WALK + " + tree_walk"
HARD = "local_hard(reach=3) + tree_depth_bias + temperature@0"
POSITIONS = ["none", "sequence", "wave(periods=5|50)", "sequence + wave"]
USES = {
    "decoder_attention": [*SELF, SELF_SOME, SELF_ALL],
    "cross_attention": [*CROSS, CROSS_ALL, HARD],
    "decoder_positions": POSITIONS,
}
ALL_USES = [(option, use) for option, uses in USES.items() for use in uses]
SAFE = {
    "decoder_attention": {name for name, cls in MECHANISMS.items() if cls.causal_safe},
    "cross_attention": {*safe_across()},
}
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}


@pytest.fixture(scope="module", autouse=True)
def wave(tmp_path_factory):
    """The position that the documentation shows, which does not look ahead."""
    with own_classes.registered(tmp_path_factory.mktemp("own")):
        yield


@pytest.fixture(scope="module", params=ALL_USES, ids=lambda both: " ".join(both))
def built(request, model_of):
    return model_of(*request.param)


@pytest.mark.parametrize(
    ("option", "together"),
    [("decoder_attention", SELF_ALL + BRACKETS), ("cross_attention", CROSS_ALL + HARD)],
)
def test_every_mechanism_that_may_stand_there_is_tested(option, together):
    assert set(re.findall(r"(\w+)[ (@]", f"{' '.join(USES[option])} ")) >= SAFE[option]
    assert all(name in together for name in SAFE[option])


# nothing later is seen, and steps equal the whole


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [0, 3, 0, 3]], ids=["padded", "not_padded"])
def test_step_by_step_equals_the_whole(built, rows):
    task, model = built
    assert_steps_equal_the_whole(task, model, targets(task, SHORT)[rows])


@pytest.mark.parametrize("use", ["sequence", "sequence + wave"])
def test_steps_with_learned_positions(use, model_of):
    task, model = model_of("decoder_positions", use, decoder_learned_pos=True)
    assert_steps_equal_the_whole(task, model, targets(task, SHORT))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_later_words_change_nothing(built, mode):
    task, model = built
    assert_causal(task, getattr(model, mode)(), SHORT)


BARE = {"no_token_positional_embeddings": True}  # because fairseq counts padding in steps only
TEMPERED = {**BARE, "decoder_attention": "temperature"}


@pytest.mark.parametrize(
    ("option", "use", "more"),
    [
        *(("decoder_attention", use, BARE) for use in (SELF_ALL, SELF[5], "window(size=3)")),
        *(("cross_attention", use, TEMPERED) for use in (CROSS_ALL, HARD, "tree_walk", CROSS[0])),
        ("decoder_positions", "none", {"decoder_attention": "relative(max=3)"}),
        ("decoder_positions", POSITIONS[2], {"decoder_attention": "relative(max=3)"}),
    ],
)
def test_padding_before_the_target_is_not_counted(option, use, more, model_of):
    task, model = model_of(option, use, **more)
    tokens = targets(task, SHORT)
    tokens[0, :3] = tokens[3, :1] = task.target_dictionary.pad()
    assert_steps_equal_the_whole(task, model, tokens)
    with torch.no_grad():
        state = encoded(task, model, SENTENCES)
        padded = model.decoder(tokens, encoder_out=state)[0][0, 3:]
        first = model.encoder.reorder_encoder_out(state, torch.tensor([0]))
        bare = model.decoder(tokens[:1, 3:], encoder_out=first)[0][0]
    torch.testing.assert_close(padded, bare, atol=1e-5, rtol=0)


def test_every_parameter_learns(built):
    task, model = built
    model.train().zero_grad()
    model(**batch(task)["net_input"])[0].square().mean().backward()
    for name, parameter in model.decoder.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("option", "use"),
    [
        ("decoder_attention", SELF_ALL),
        ("cross_attention", CROSS_ALL),
        ("cross_attention", HARD),
        ("decoder_positions", "sequence + wave"),
    ],
)
def test_low_precision(option, use, precision, model_of):
    if precision == torch.float16 and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    task, model = model_of(option, use)
    tokens = targets(task, SHORT)
    with torch.no_grad():
        expected = model.eval().decoder(tokens, encoder_out=encoded(task, model, SENTENCES))[0]
        state = encoded(task, model.to(precision), SENTENCES)
        single, whole, _ = steps(model, tokens, state, torch.arange(4))
    real = tokens != task.target_dictionary.pad()
    for logits in (single, whole):
        assert logits.dtype == precision
        torch.testing.assert_close(logits[real].float(), expected[real], atol=0.2, rtol=0)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("use", USES["cross_attention"])
def test_padding_of_the_source_changes_nothing(use, left, model_of):
    task, model = model_of("cross_attention", use)
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
    return model.decoder(tokens, encoder_out=model.encoder(**fields))[0]


# beside fairseq's own decoder


@pytest.fixture(scope="module")
def stock(bracketed):
    return build(bracketed, *STOCK, "--dropout", "0.1", "--attention-dropout", "0.1", seed=2).model


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_without_mechanisms_it_is_the_stock_decoder(mode, stock, model_of, bracketed):
    """This also holds beside an encoder with mechanisms, in train mode with dropout."""
    task, model = model_of("encoder_attention", "relative", **DROPOUT)
    assert {type(layer) for layer in model.decoder.layers} == {TransformerDecoderLayerBase}
    assert {type(layer.encoder_attn) for layer in model.decoder.layers} == {MultiheadAttention}
    model.decoder.load_state_dict(stock.decoder.state_dict(), strict=True)
    state, tokens, outputs = encoded(task, model.eval(), SENTENCES), targets(task, SHORT), []
    for decoder in (stock.decoder, model.decoder):
        getattr(decoder, mode)()
        torch.manual_seed(3)
        outputs.append(decoder(tokens, encoder_out=state)[0])
    assert torch.equal(*outputs)


def test_a_checkpoint_of_a_version_without_cross_attention(stock, model_of, bracketed):
    """Its configuration lacks the option."""
    _, _, cfg = build(bracketed, *SIZES)
    args = plain_namespace(cfg.model)
    del args.cross_attention
    model = model_of("cross_attention", "")[0].build_model(args)
    assert list(dict(model.named_parameters())) == list(dict(stock.named_parameters()))


@pytest.mark.parametrize(
    ("option", "use"),
    [
        ("decoder_attention", "temperature"),
        ("cross_attention", "temperature"),
        ("cross_attention", "temperature@1"),  # the layer without it has attention of our own, too
    ],
)
def test_where_mechanisms_do_nothing_it_equals_the_stock_attention(option, use, model_of, stock):
    task, model = model_of(option, use, **DROPOUT)
    for layer in model.decoder.layers:
        for attention in (layer.self_attn, layer.encoder_attn):
            for mechanism in getattr(attention, "mechanisms", {}).values():
                mechanism.set_neutral()
    model.load_state_dict(stock.state_dict(), strict=True)
    tokens = targets(task, SHORT)
    tokens[0, :3] = task.target_dictionary.pad()  # on the left, as of --left-pad-target
    state, real = encoded(task, model.eval(), SENTENCES), tokens != task.target_dictionary.pad()
    (ours, extra), (theirs, of_stock) = (
        m.eval().decoder(tokens, encoder_out=state) for m in (model, stock)
    )
    assert torch.isfinite(ours[real]).all()
    if torch.__version__ < "2.5":  # which makes NaN of a sentence with padding on the left
        real[0] = False
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(extra["attn"][0][real], of_stock["attn"][0][real])
    both = [model.decoder.layers[1], stock.decoder.layers[1]]
    names = [[getattr(m, "module_name", "") for m in x.modules()] for x in both]
    assert sorted(filter(None, names[0])) == sorted(filter(None, names[1]))  # of all dropouts


# what cannot work

LAYERS = "the model has 2 layers, 0 to 1"
REFUSED = {
    "decoder_attention": [
        ("window", {"cross_self_attention": True}, "be combined with --cross-self-attention"),
        ("window@1", {"decoder_xformers_att_config": "{}"}, "with --decoder-xformers-att"),
        ("relative@2", {}, f"relative@2: {LAYERS}"),
        ("window(across=5)", {}, "across=5 is more than the 4 attention heads of the model"),
        ("gaussian(heads=4)", {}, "the model has 4 attention heads, 0 to 3"),
        ("direct_absolute(t=10)", {}, "t=10 has no score .* 320 .*--max-source-positions 10 .*ta"),
        ("window + window", {}, "'window' occurs twice in layer 0"),
    ],
    "cross_attention": [
        ("window", {"cross_self_attention": True}, "be combined with --cross-self-attention"),
        ("window", {"no_cross_attention": True}, "be combined with --no-cross-attention"),
        ("window@2", {}, f"window@2: {LAYERS}"),
        ("relative", {}, "'relative' relates pieces of the same sentence, .*takes: gaussian, loca"),
        ("block", {}, "'block' acts before or after the attention"),
        ("tree_walk", {"checkpoint_activations": True}, "tree_walk.* omit --checkpoint-activatio"),
    ],
}


@pytest.mark.parametrize(
    ("option", "use", "more", "message"),
    [(option, *case) for option, cases in REFUSED.items() for case in cases],
)
def test_what_cannot_work_is_refused(option, use, more, message, model_of):
    with pytest.raises(SpecificationError, match=message):
        model_of(option, use, **more)


@pytest.mark.parametrize(
    ("option", "use", "message"),
    [
        ("decoder_attention", "block", "'block' acts before or after the attention"),
        ("cross_attention", "tree_relative", "'tree_relative' relates pieces of the same sentence"),
    ],
)
def test_it_is_refused_before_the_training(option, use, message, bracketed, tmp_path):
    result = train(bracketed, tmp_path, *with_option(option, use), check=False)
    assert message in result.message
    assert not list(tmp_path.iterdir())


# checkpoints


@pytest.mark.parametrize(
    ("option", "use"),
    [
        *(("decoder_attention", use) for use in ("window", "relative@1", SELF_ALL)),
        *(("cross_attention", use) for use in ("window", "gaussian@1", CROSS_ALL)),
    ],
)
def test_a_stock_checkpoint_loads(option, use, stock, model_of, caplog):
    """As fairseq loads it, also for --finetune-from-model; what was added starts anew."""
    _, model = model_of(option, use, encoder_attention="relative(max=3) + window(across=3)@1")
    start = {key: value.clone() for key, value in model.state_dict().items()}
    taken = stock.state_dict()
    model.load_state_dict(dict(taken), strict=True)
    for key, value in model.state_dict().items():
        assert torch.equal(value, taken.get(key, start[key])), key
    added = [key for key in start if key.startswith("decoder") and key not in taken]
    part = "self_attn" if option == "decoder_attention" else "encoder_attn"
    assert bool(added) == (use != "window") == (f"decoder.layers.1.{part}" in caplog.text)


ENCODER = ("--encoder-attention", "relative(max=3) + window(across=3)@1")
TABLES = ("--max-target-positions", "48")


@pytest.mark.long
@pytest.mark.parametrize(
    ("option", "use", "more"),
    [
        ("decoder_attention", SELF_ALL, (*ENCODER, *TABLES)),
        ("cross_attention", ALL_BUT_WALK, FULL_TREE),  # tree_walk refuses --checkpoint-activations
    ],
)
def test_resuming_and_activation_checkpointing_change_nothing(
    option, use, more, bracketed, tmp_path
):
    chosen = (*with_option(option, use, *more), "--dropout", "0.1", "--disable-validation")
    check_resumed(bracketed, tmp_path, chosen)


@pytest.mark.long(ci=True)
@pytest.mark.parametrize(
    ("option", "use"),
    [
        ("decoder_attention", "relative(max=1)@0 + relative(max=2)@2"),
        ("cross_attention", "tree_depth_bias(max=1)@0 + gaussian@2"),
    ],
)
def test_layers_are_dropped_and_kept(option, use, bracketed, model_of, tmp_path):
    """Each layer keeps its own mechanism, in training and after it."""
    chosen = (*with_option(option, use), "--decoder-layers", "3", "--decoder-layerdrop", "0.5")
    train(bracketed, tmp_path, *chosen, "--disable-validation")
    task, _ = model_of(option, "")
    check_kept_layers(tmp_path / "checkpoint_last.pt", task, ("0", "0,1", "1,2", "2"))


# through fairseq's programs

TRAINED = {
    "self": (*with_option("decoder_attention", SELF_ALL), *ENCODER, *TABLES),
    "brackets": (*with_option("decoder_attention", BRACKETS), *ENCODER, *TABLES),
    "cross": with_option("cross_attention", CROSS_ALL),
    "hard": (*with_option("cross_attention", HARD), *FULL_TREE),
}


@pytest.fixture(scope="module")
def runs(bracketed, tmp_path_factory):
    """Return a function that trains a model once, moves it away from neutral, and returns it."""
    folder = tmp_path_factory.mktemp("runs")

    def trained(name: str):
        path = folder / name / "checkpoint_last.pt"
        if not path.exists():
            options = TRAINED.get(name, (*STOCK, *TABLES))
            updates = ("--lr", "1e-2", "--disable-validation", "--max-update", "80")
            train(bracketed, path.parent, *options, *updates)
            if name in TRAINED:
                move(path, r"^decoder\..*\.mechanisms\.")
        return path

    return trained


BEAM = ("--beam", "3")
TRANSLATING = {
    "greedy": (["self"], ("--beam", "1"), 0),
    "beam": (["cross"], BEAM, 0),
    "brackets": (["brackets"], BEAM, 0),
    "hard": (["hard"], BEAM, 0),
    "prefix": (["cross"], (*BEAM, "--prefix-size", "3"), 3),
    "prefix of self-attention": (["self"], (*BEAM, "--prefix-size", "3"), 3),
    "reference": (["self"], ("--score-reference",), 99),
    "ensemble": (["cross", "stock", "hard"], BEAM, 0),
    "ensemble of self-attention": (["self", "stock"], BEAM, 0),
}


@pytest.mark.long(ci=["greedy", "brackets", "beam"])
@pytest.mark.parametrize("kind", TRANSLATING)
def test_printed_scores_are_those_of_the_whole(kind, runs, bracketed, model_of):
    names, options, given = TRANSLATING[kind]
    task, _ = model_of("cross_attention", "tree_depth_bias")
    check_printed_scores(
        bracketed, [str(runs(n)) for n in names], task, options, given, different=5
    )


def test_translations_may_be_as_long_as_the_tables(runs, bracketed):
    """No step reaches beyond the longest target, for which direct_absolute has a score."""
    longest = ("--min-len", "30", "--max-len-b", "500", "--beam", "1", "--gen-subset", "valid")
    output = generate(bracketed, runs("self"), *longest, "--batch-size", "60").output
    lengths = {len(text.split()) for text, _ in hypotheses_and_scores(output).values()}
    assert min(lengths) >= 30 and max(lengths) == 47


@pytest.mark.long(ci=True)
def test_alignments_are_printed(runs, bracketed):
    output = generate(bracketed, runs("cross"), "--print-alignment", "hard", *BEAM).output
    alignments = dict(re.findall(r"^A-(\d+)\t(.*)$", output, re.M))
    assert len(alignments) == 60
    pairs = [pair.split("-") for text in alignments.values() for pair in text.split()]
    # a window of five pieces, across heads, so no word lies further from the diagonal than two
    assert len(pairs) > 100 and all(int(source) <= int(target) + 2 for source, target in pairs)
