"""These tests check the options of posattn_transformer, and fairseq's own beside them."""

import re
from dataclasses import asdict
from unittest.mock import ANY

import pytest
import torch
from fairseq import checkpoint_utils, options, tasks
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
from support.commands import FULL_TREE, PLUGIN
from support.in_process import (
    build,
    call,
    configured,
    generate,
    hypotheses_and_scores,
    losses_of_updates,
    train,
)
from support.trainings import assert_same_model

OWN = {f"--{side}-{part}" for side in ("encoder", "decoder") for part in ("positions", "attention")}
OWN |= {"--cross-attention", "--fast-dropout"}
# in fairseq read as a list and then split as a string; read as a string and taken as a number
OWN_TYPES = ("--encoder-layers-to-keep", "--decoder-layers-to-keep", "--decoder-output-dim")
STOCK = ("--arch", "transformer")


def state(checkpoint) -> dict:
    return checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))["model"]


# what a specification does


# help and mistakes


MISTAKES = [  # one of each place that refuses; tests/core/test_specification.py has the others
    # options, what the message must contain: the mistake, the remedy
    (["--encoder-attention", "relativ"], ["'relativ'", "names are relative, tree_relative and"]),
    (["--encoder-attention", "relative(max=0)"], ["max=0", "at least 1"]),
    (["--encoder-attention", "window(across=3) + convolved_2d"], ["layer 0", "leave out one"]),
    (["--decoder-attention", "tree_relative"], ["reads trees", "target sentences have none"]),
    (["--encoder-positions", "sequenc"], ["'sequenc'", "choose from none, relation_embedd"]),
    (
        ["--encoder-attention", "tree_relative", "--task", "translation"],
        ["TranslationTask", "--task structured_translation"],
    ),
    (["--quant-noise-pq", "0.1"], ["--quant-noise-pq", "omit this option"]),
]


@pytest.mark.parametrize(("mistake", "expected"), MISTAKES, ids=[" ".join(m) for m, _ in MISTAKES])
def test_a_mistake_ends_the_program_at_start(mistake, expected, toy_data, tmp_path):
    result = train(toy_data, tmp_path, *mistake, check=False)
    assert result.error is not None
    end = result.message[-600:]
    for text in expected:
        assert text in end
    assert not list(tmp_path.glob("*.pt"))


def last_line(output: str) -> str:
    """Return the line that a program ends with, which is short."""
    line = output.rstrip("\n").rpartition("\n")[2]
    assert line.startswith("error: ") and len(line) <= 300
    return line


@pytest.mark.parametrize(
    ("option", "value", "nearest"),
    [
        ("--arch", "posattn_transformr", "posattn_transformer, posattn_transformer_tiny and"),
        ("--task", "structured_translations", "structured_translation, "),
        ("--encoder-attention", "relativ + window", "relative, tree_relative and "),
    ],
)
def test_a_mistyped_name_shows_those_like_it(option, value, nearest, toy_data, tmp_path):
    """One line does, where fairseq prints its usage and all names."""
    result = train(toy_data, tmp_path, option, value, check=False)
    assert result.error.code == 2 and "usage:" not in result.output
    line = last_line(result.output)
    assert option in line and f" names are {nearest}" in line


def test_a_mistyped_option_shows_those_like_it(toy_data, tmp_path):
    result = train(toy_data, tmp_path, "--max-token", "5", check=False)
    assert result.error.code == 2 and "usage:" not in result.output
    assert "--max-token 5; the nearest of " in last_line(result.output)
    assert "are --max-tokens, " in last_line(result.output)


def options_of(arch: str) -> dict:
    """What --arch adds to the command line: name -> how its value is read."""
    parser = options.get_training_parser()
    before = set(parser._option_string_actions)  # argparse has no public list of options
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    return {
        name: (type(action), getattr(action.type, "__qualname__", None), action.nargs)
        + (action.const, action.choices)
        for name, action in parser._option_string_actions.items()
        if name not in before
    }


def test_options_are_those_of_the_stock_model_and_our_own():
    ours, stock = options_of("posattn_transformer"), options_of("transformer")
    # fairseq's decoder reads --decoder-input-dim too, but its command line leaves it out
    assert ours.keys() - stock.keys() == {*OWN, "--decoder-input-dim"}
    assert {name: ours[name] for name in stock} == {**stock, **dict.fromkeys(OWN_TYPES, ANY)}


def test_defaults_are_those_of_the_stock_model(toy_data):
    ours, stock = (configured(toy_data, *arch).model for arch in ((), STOCK))
    stock = without_names(asdict(TransformerConfig.from_namespace(stock)))
    ours = without_names(asdict(TransformerConfig.from_namespace(plain_namespace(ours))))
    assert ours["decoder"].pop("input_dim") is ours["decoder"].pop("output_dim") is None
    width = stock["decoder"]["embed_dim"]
    assert stock["decoder"].pop("input_dim") == stock["decoder"].pop("output_dim") == width
    assert ours == stock


def without_names(options: dict) -> dict:
    return {
        key: without_names(value) if isinstance(value, dict) else value
        for key, value in options.items()
        if key != "_name"
    }


# the checkpoint


def test_a_loose_specification_is_stored_canonically(toy_data):
    """This also holds where no command line has read it, in hydra and in Python."""
    cfg = configured(toy_data).model
    cfg.encoder_attention, cfg.encoder_positions = "relative( max=3 ) @0|1", "tree_depth+sequence"
    cfg.decoder_positions = " none "
    tasks.setup_task(configured(toy_data).task).build_model(cfg)
    assert cfg.encoder_attention == "relative(max=3, shared_heads=true)@0-1"
    assert cfg.encoder_positions == "sequence + tree_depth(fuse=nonlinear)"
    assert cfg.decoder_positions == "none"


def test_validate_gives_the_loss_of_training(toy_data, tmp_path):
    """fairseq-validate takes task and model from the checkpoint."""
    logged = train(toy_data, tmp_path, *FULL_TREE).output
    common = [toy_data, "--user-dir", PLUGIN, "--task", "structured_translation", "--cpu"]
    common += ["--path", tmp_path / "checkpoint_last.pt", "--max-tokens", "1000"]
    validated = call("validate", *common, "--num-workers", "0").output
    found = [re.findall(r"valid.* \| loss ([\d.]+)", text)[-1] for text in (logged, validated)]
    assert found[0] == found[1]


# fairseq's other options

COMBINED = [  # each run takes about a second
    ("--encoder-layerdrop", "0.5", "--update-freq", "2", "--share-all-embeddings"),
    ("--encoder-learned-pos", "--encoder-normalize-before", "--clip-norm", "1"),
    ("--layernorm-embedding", "--activation-fn", "gelu", "--dropout", "0.1"),
    ("--checkpoint-activations", "--offload-activations"),
    ("--no-scale-embedding", "--adaptive-softmax-cutoff", "50", "--criterion", "adaptive_loss")
    + ("--ddp-backend", "legacy_ddp"),
    ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1", "--store-ema"),
    ("--no-cross-attention", "--activation-dropout", "0.1", "--attention-dropout", "0.1"),
]


@pytest.mark.long(
    but=["--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --store-ema"]
)
@pytest.mark.parametrize("chosen", COMBINED, ids=" ".join)
def test_trains_and_translates_with(chosen, toy_data, tmp_path):
    if "--store-ema" in chosen:
        chosen = (*chosen, "--ema-fp32")
    trained = train(toy_data, tmp_path, *FULL_TREE, *chosen)
    assert len(losses_of_updates(trained.output)) == 4
    translated = generate(toy_data, tmp_path / "checkpoint_last.pt", "--max-len-b", "10").output
    assert len(hypotheses_and_scores(translated)) == 60


@pytest.mark.long
def test_activation_checkpointing_changes_nothing(toy_data, tmp_path):
    dropout = ("--dropout", "0.1", "--attention-dropout", "0.1")
    for name, chosen in (("without", ()), ("with", ("--checkpoint-activations",))):
        train(toy_data, tmp_path / name, *FULL_TREE, *dropout, *chosen)
    assert_same_model(*(tmp_path / name / "checkpoint_last.pt" for name in ("without", "with")))


@pytest.mark.parametrize(
    ("chosen", "smallest"), [((), 100_000_000), (("--checkpoint-activations",), 0)]
)
def test_fsdp_wraps_the_layers_that_it_wraps_in_fairseq(chosen, smallest, toy_data, monkeypatch):
    """FSDP itself needs GPUs; what matters is from which number of parameters it wraps a layer."""
    asked = {"encoder": [], "decoder": []}

    def wrap(layer, min_num_params):
        side = "decoder" if "Decoder" in type(layer).__name__ else "encoder"
        asked[side].append(min_num_params)
        return layer

    monkeypatch.setattr("fairseq_posattn.fairseq_plugin.models.config.fsdp_wrap", wrap)
    build(toy_data, *FULL_TREE, "--decoder-attention", "window(size=3)", *chosen)
    assert set(asked["encoder"]) == set(asked["decoder"]) == {smallest}


@pytest.mark.parametrize(
    "flag", ["--fp16", "--memory-efficient-fp16", "--bf16", "--memory-efficient-bf16", "--amp"]
)
def test_low_precision_where_stock_fairseq_can(flag, toy_data, tmp_path):
    """On the CPU fairseq itself cannot do all of them."""
    stock = train(toy_data, tmp_path / "stock", *STOCK, flag, check=False).error
    ours = train(toy_data, tmp_path / "ours", *FULL_TREE, flag, check=False).error
    assert (type(ours), str(ours)) == (type(stock), str(stock))
    if flag != "--fp16" and torch.__version__ >= "2.2":
        assert ours is None


@pytest.mark.long
def test_layers_to_keep(tree_model, toy_data, tmp_path):
    """Layers keep their mechanisms when others are left out of a checkpoint."""
    whole = hypotheses_and_scores(generate(toy_data, tree_model).output)
    kept = {}
    for layers in ("0,1", "0", "1"):  # fairseq wants those of the decoder named too
        overrides = {"encoder_layers_to_keep": layers, "decoder_layers_to_keep": "0"}
        output = generate(toy_data, tree_model, "--model-overrides", str(overrides)).output
        kept[layers] = hypotheses_and_scores(output)
    assert kept["0,1"] == whole
    assert kept["0"] != whole != kept["1"] != kept["0"]


def test_layers_to_keep_of_a_mechanism_on_one_layer(toy_data, tmp_path):
    train(toy_data, tmp_path, "--encoder-attention", "relative@1", "--max-update", "1")
    whole = state(tmp_path / "checkpoint_last.pt")
    for layers, mechanisms in (("1", {"relative"}), ("0", set())):
        (model,), _ = checkpoint_utils.load_model_ensemble(
            [str(tmp_path / "checkpoint_last.pt")],
            arg_overrides={"encoder_layers_to_keep": layers, "decoder_layers_to_keep": "0"},
            task=build(toy_data).task,
        )
        (layer,) = model.encoder.layers
        assert set(layer.self_attn.mechanisms) == mechanisms
        assert torch.equal(layer.fc1.weight, whole[f"encoder.layers.{layers}.fc1.weight"])
