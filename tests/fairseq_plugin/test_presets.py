"""Check the published models, which are presets of --arch."""

import json
import re
from argparse import Namespace
from itertools import product
from pathlib import Path

import pytest
import torch
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.core.positions.registry import PositionSpecification
from support.commands import PLUGIN
from support.in_process import batch, build, configured

OTHER_MODELS = ("san_tagger", "recurrent_lm", "attention_s2s")
TABLE = Path(__file__).with_name("presets.json")
S, s, T, t = "relative", "sequence", "tree_relative", "tree_depth"
# Wang et al. 2019, Table 1: absolute (sequence, tree) and relative (sequence, tree) of 1 to 9
TABLE_1 = [
    ("no_positions", set(), set()),
    ("tree_absolute", {t}, set()),
    ("tree_relative", set(), {T}),
    ("sequence", {s}, set()),
    ("sequence_tree_absolute", {s, t}, set()),
    ("sequence_tree", {s, t}, {T}),
    ("relative", {s}, {S}),
    ("relative_tree_absolute", {s, t}, {S}),
    ("structural", {s, t}, {S, T}),
]
# The other papers: positions, mechanisms with all options, in an encoder of three layers or more
OTHERS = {
    # Yang et al. 2019, Table 1
    "directional": (s, "directional(strict=false)@0-2"),
    "rel_pos": (s, "relative(max=16, shared_heads=false)@0-2"),
    "gaussian": (s, "gaussian@0-2"),
    "local_hard": (s, "local_hard(reach=10)@0-2"),
    "local_soft": (s, "local_soft@0-2"),
    "block": (s, "block(size=0)@0-2"),
    "cnn": (s, "cnn(layers=2, kernel=7, separable=true)@0-2"),
    "csan_1d": (s, "window(size=11, across=1)@0-2"),
    "csan_2d": (s, "window(size=11, across=3)@0-2"),
    # Dufter et al. 2020, Section 2: P and R in the first layer, the rest in all
    "direct_absolute": ("none", "direct_absolute(t=0, init=zeros)@0"),
    "direct_relative": ("none", "direct_relative(t=0, init=zeros, symmetric=false)@0"),
    "direct": (
        "none",
        "direct_absolute(t=0, init=zeros)@0 + direct_relative(t=0, init=zeros, symmetric=false)@0",
    ),
    "temperature": (s, "temperature"),
    "convolved_1d": (s, "convolved_1d(init=glorot_normal, t=0)"),
    "convolved_2d": (s, "convolved_2d(init=glorot_normal)"),
    # Bugliarello and Okazaki 2020: five heads of the first layer
    "parent_scaled": (s, "parent_scaled(heads=0-4)@0"),
}
SIZES = {
    "": "transformer",
    "_tiny": "transformer_tiny",
    "_iwslt_de_en": "transformer_iwslt_de_en",
    "_wmt_en_de": "transformer_wmt_en_de",
    "_wmt_en_de_big": "transformer_wmt_en_de_big",
}
QUADRATIC = ("direct_absolute", "direct", "convolved_1d")  # tables of t x t numbers
DIFFERENT = {
    **{pair: {"max_source_positions": 256} for pair in product(QUADRATIC, SIZES)},
    ("csan_2d", "_tiny"): {"encoder_attention_heads": 4},  # 2 are too few for a window across 3
}
MODELS = [*(name for name, _, _ in TABLE_1), *OTHERS]


def of_architecture(name: str, **given) -> dict:
    """What --arch NAME makes of the options given."""
    args = Namespace(**given)
    ARCH_CONFIG_REGISTRY[name](args)
    return vars(args)


def names(specification: str) -> set[str]:
    return {re.split("[(@]", part)[0] for part in specification.split(" + ")} - {"", "none"}


def test_the_presets_are_those_of_the_table():
    expected = {f"posattn_{model}{size}" for model, size in product(MODELS, SIZES)}
    present = {name for name in ARCH_MODEL_REGISTRY if name.startswith("posattn_")}
    assert len(expected) == 125
    assert present == expected | {f"posattn_transformer{size}" for size in SIZES}


def test_no_preset_of_other_models_changes():
    """Those of other models set what they did when the table was recorded, beside the defaults."""
    table = {
        name: of_architecture(name).items() - vars(MODEL_DATACLASS_REGISTRY[model]()).items()
        for name, model in ARCH_MODEL_NAME_REGISTRY.items()
        if model in OTHER_MODELS
    }
    assert {name: dict(sorted(values)) for name, values in table.items()} == json.loads(
        TABLE.read_text()
    )


def canonical(options: dict) -> tuple[str, str]:
    return (
        str(PositionSpecification(options["encoder_positions"])),
        str(AttentionSpecification(options["encoder_attention"])),
    )


@pytest.mark.parametrize(("model", "absolute", "relative"), TABLE_1)
def test_specification_of_the_paper(model, absolute, relative):
    for size in SIZES:
        options = of_architecture(f"posattn_{model}{size}")
        positions, attention = canonical(options)
        assert names(positions) == absolute
        assert names(attention) == relative
        assert ("fuse=nonlinear" in positions) == (absolute == {s, t})  # the main variant
        assert attention.count("(max=16, shared_heads=true)") == len(relative)  # r = 16
        assert "@" not in attention


@pytest.mark.parametrize("model", OTHERS)
def test_specification_of_the_other_papers(model):
    positions, attention = OTHERS[model]
    for size in SIZES:
        layers = "@0-1" if size == "_tiny" else "@0-2"  # the lowest three of those that there are
        expected = (positions, attention.replace("@0-2", layers))
        assert canonical(of_architecture(f"posattn_{model}{size}")) == expected


@pytest.mark.parametrize(("layers", "lowest"), [(1, "@0"), (2, "@0-1"), (3, "@0-2"), (4, "@0-2")])
def test_the_lowest_three_layers_that_there_are(layers, lowest):
    for size in SIZES:
        _, attention = canonical(of_architecture(f"posattn_cnn{size}", encoder_layers=layers))
        assert attention == f"cnn(layers=2, kernel=7, separable=true){lowest}"


@pytest.mark.parametrize(("model", "size"), [*product(MODELS, SIZES)])
def test_sizes_are_those_of_fairseq(model, size):
    preset, stock = of_architecture(f"posattn_{model}{size}"), of_architecture(SIZES[size])
    own = {"encoder_positions", "encoder_attention"}
    expected = stock | DIFFERENT.get((model, size), {})
    assert {key: value for key, value in preset.items() if key not in own} == expected


@pytest.mark.parametrize("size", [size for size in SIZES if size])
def test_the_plain_transformer_has_the_sizes_of_fairseq(size):
    expected = of_architecture(SIZES[size]) | {"encoder_attention": ""}
    assert of_architecture(f"posattn_transformer{size}") == expected


@pytest.mark.parametrize("size", ["_tiny", "_wmt_en_de"])
def test_the_decoder_is_as_wide_as_the_encoder_unless_it_is_named(size):
    options = of_architecture(f"posattn_structural{size}", encoder_embed_dim=32)
    assert (options["encoder_embed_dim"], options["decoder_embed_dim"]) == (32, 32)
    options = of_architecture(f"posattn_structural{size}", decoder_embed_dim=32)
    assert options["decoder_embed_dim"] == 32 != options["encoder_embed_dim"]


@pytest.fixture(scope="module")
def stock(toy_data):
    return build_bare(toy_data, "transformer_tiny", "translation").model.state_dict()


def needs_trees(positions: str, attention: str) -> bool:
    return any(word in positions + attention for word in ("tree", "parent"))


@pytest.mark.long(but=["structural", "csan_2d", "parent_scaled"])
@pytest.mark.parametrize("model", MODELS)
def test_tiny_preset_builds_what_it_says(model, toy_data, stock):
    """With the options of the command line behind --arch left out, so that the preset rules; where
    no trees are needed, under fairseq's own task."""
    specification = canonical(of_architecture(f"posattn_{model}_tiny"))
    task = "structured_translation" if needs_trees(*specification) else "translation"
    built = build_bare(toy_data, f"posattn_{model}_tiny", task)
    encoder = built.model.encoder
    assert (str(encoder.positions), str(encoder.attention)) == specification
    assert canonical(built.cfg.model) == specification
    assert torch.isfinite(built.model(**batch(built.task)["net_input"])[0]).all()
    attention = names(str(encoder.attention))
    upper = set() if str(encoder.attention).endswith("@0") else attention
    assert [set(layer.self_attn.mechanisms) for layer in encoder.layers] == [attention, upper]
    assert encoder.max_positions() == (256 if model in QUADRATIC else 1024)
    ours = built.model.state_dict()
    assert {key: value.shape for key, value in stock.items() if key in ours} == {
        key: value.shape for key, value in ours.items() if key in stock
    }
    added = [key for key in ours if key not in stock]
    assert all("mechanisms" in key or "fuser" in key for key in added)
    assert not stock.keys() - ours.keys()


def build_bare(data, architecture, task):
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    arguments = [str(data), "--user-dir", str(PLUGIN), "--task", task]
    arguments += ["-s", "src", "-t", "tgt", "--arch", architecture]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    return Namespace(task=task, model=task.build_model(cfg.model), cfg=cfg)


def test_an_option_overrides_the_preset(toy_data):
    cfg = configured(toy_data, "--arch", "posattn_structural_tiny", "--encoder-attention", "")
    assert cfg.model.encoder_attention == ""
    assert names(cfg.model.encoder_positions) == {s, t}
    cfg = configured(toy_data, "--arch", "posattn_direct_tiny", "--max-source-positions", "99")
    assert cfg.model.max_source_positions == 99
    encoder = build(toy_data, "--arch", "posattn_csan_1d", "--encoder-layers", "2").model.encoder
    assert str(encoder.attention) == "window(size=11, across=1)@0-1"
