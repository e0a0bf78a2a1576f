"""The nine models of Table 1 of Wang et al. (2019) as --arch presets and as hydra's YAML files."""

from argparse import Namespace
from itertools import product

import pytest
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

import fairseq_posattn.plugin  # noqa: F401
from commands import PLUGIN, fairseq, generate
from fairseq_posattn.attention import AttentionSpecification
from fairseq_posattn.models.config import PosattnTransformerConfig
from fairseq_posattn.models.presets import STRUCTURAL_MODELS
from fairseq_posattn.positions.registry import PositionSpecification
from in_process import OLD_FAIRSEQ, configured, hypotheses_and_scores

try:
    from hydra import compose
except ImportError:  # hydra 1.0, beside fairseq 0.12.2
    from hydra.experimental import compose

CONFIG = PLUGIN / "config"
S, s, T, t = "relative", "sequence", "tree_relative", "tree_depth"
# Table 1: absolute (sequence, tree) and relative (sequence, tree) of the models 1 to 9
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
SIZES = {
    "": "transformer",
    "_tiny": "transformer_tiny",
    "_iwslt_de_en": "transformer_iwslt_de_en",
    "_wmt_en_de": "transformer_wmt_en_de",
    "_wmt_en_de_big": "transformer_wmt_en_de_big",
}
FILES = [size.removeprefix("_") for size in SIZES if size]
MODELS = [name for name, _, _ in TABLE_1]


def of_architecture(name: str) -> dict:
    """What a bare --arch NAME sets."""
    args = Namespace()
    ARCH_CONFIG_REGISTRY[name](args)
    return vars(args)


def names(specification: str) -> set[str]:
    return {part.split("(")[0] for part in specification.split(" + ")} - {"", "none"}


def test_the_presets_are_those_of_the_table():
    expected = {f"posattn_{model}{size}" for model, size in product(MODELS, SIZES)}
    present = {name for name in ARCH_MODEL_REGISTRY if name.startswith("posattn_")}
    assert len(expected) == 45
    assert present == expected | {"posattn_transformer"}
    assert list(STRUCTURAL_MODELS) == MODELS


@pytest.mark.parametrize(("model", "absolute", "relative"), TABLE_1)
def test_specification_of_the_paper(model, absolute, relative):
    for size in SIZES:
        options = of_architecture(f"posattn_{model}{size}")
        positions = str(PositionSpecification(options["encoder_positions"]))
        attention = str(AttentionSpecification(options["encoder_attention"]))
        assert names(positions) == absolute
        assert names(attention) == relative
        assert ("fuse=nonlinear" in positions) == (absolute == {s, t})  # the main variant
        assert attention.count("(max=16, shared_heads=true)") == len(relative)  # r = 16
        assert "@" not in attention


@pytest.mark.parametrize(("model", "size"), product(MODELS, SIZES))
def test_sizes_are_those_of_fairseq(model, size):
    preset, stock = of_architecture(f"posattn_{model}{size}"), of_architecture(SIZES[size])
    own = {"encoder_positions", "encoder_attention"}
    assert {key: value for key, value in preset.items() if key not in own} == stock


@pytest.mark.parametrize("model", MODELS)
def test_tiny_preset_builds_what_it_says(model, toy_data):
    """With the options of the command line behind --arch left out, so that the preset rules."""
    built = build_bare(toy_data, f"posattn_{model}_tiny")
    stock = build_bare(toy_data, "transformer_tiny")
    encoder = built.model.encoder
    positions, attention = (names(str(x)) for x in (encoder.positions, encoder.attention))
    assert (model, positions, attention) in TABLE_1
    assert built.cfg.model.encoder_positions == str(encoder.positions)
    assert built.cfg.model.encoder_attention == str(encoder.attention)
    for layer in encoder.layers:
        assert set(layer.self_attn.mechanisms) == attention
    ours, theirs = built.model.state_dict(), stock.model.state_dict()
    assert {key: value.shape for key, value in theirs.items() if key in ours} == {
        key: value.shape for key, value in ours.items() if key in theirs
    }
    added = [key for key in ours if key not in theirs]
    assert all("mechanisms" in key or "fuser" in key for key in added)
    assert OLD_FAIRSEQ or not theirs.keys() - ours.keys()


def build_bare(data, architecture):
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    arguments = [str(data), "--user-dir", str(PLUGIN), "--task", "structured_translation"]
    arguments += ["-s", "src", "-t", "tgt", "--arch", architecture]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    return Namespace(model=task.build_model(cfg.model), cfg=cfg)


def test_an_option_overrides_the_preset(toy_data):
    cfg = configured(toy_data, "--arch", "posattn_structural_tiny", "--encoder-attention", "")
    assert cfg.model.encoder_attention == ""
    assert names(cfg.model.encoder_positions) == {s, t}


# hydra


def composed(*overrides: str) -> dict:
    """The model that hydra makes of the shipped files."""
    with initialized():
        return dict(compose("structured_translation", overrides=list(overrides)).model)


def initialized():
    try:
        from hydra import initialize_config_dir
    except ImportError:  # hydra 1.0, beside fairseq 0.12.2
        from hydra.experimental import initialize_config_dir
    return initialize_config_dir(str(CONFIG))


@pytest.mark.parametrize(("model", "size"), product(MODELS, FILES))
def test_yaml_is_the_preset(model, size):
    chosen = composed(f"model={model}", f"size={size}")
    assert chosen.pop("_name") == "posattn_transformer"
    filled = {**vars(PosattnTransformerConfig()), **chosen}
    preset = of_architecture(f"posattn_{model}_{size}")
    for name in ("decoder_input_dim", "decoder_output_dim"):  # None: that of the embedding
        assert filled.pop(name) is None
        assert preset.pop(name) == preset["decoder_embed_dim"]
    assert {key: filled[key] for key in preset} == preset


def test_every_yaml_file_is_known():
    assert {path.stem for path in CONFIG.glob("model/*.yaml")} == set(MODELS)
    assert {path.stem for path in CONFIG.glob("size/*.yaml")} == set(FILES)


def hydra_train(data, save_dir, *overrides, **kwargs):
    return fairseq(
        "hydra_train",
        *("--config-dir", CONFIG, "--config-name", "structured_translation", "size=tiny"),
        *(f"task.data={data}", "task.source_lang=src", "task.target_lang=tgt", "common.cpu=true"),
        *(
            f"checkpoint.save_dir={save_dir}",
            "optimization.max_update=3",
            "dataset.max_tokens=1000",
        ),
        *(f"common.user_dir={PLUGIN}", *overrides),
        cwd=save_dir,
        **kwargs,
    )


@pytest.mark.long
def test_hydra_trains_and_its_checkpoint_translates(toy_data, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    attention = 'model.encoder_attention="relative(max=3)@1 + tree_relative"'
    output = hydra_train(toy_data, folder, "model=structural", attention).stdout
    canonical = "relative(max=3, shared_heads=true)@1 + tree_relative(max=16, shared_heads=true)"
    assert canonical in output
    assert "sequence + tree_depth(fuse=nonlinear)" in output
    hydra_train(toy_data, folder, "model=structural", attention, "optimization.max_update=5")
    translated = generate(toy_data, folder / "checkpoint_last.pt").stdout
    assert f"--encoder-attention '{canonical}'" in translated
    sentences = (toy_data.parent / "test.src").read_text().count("\n")
    assert len(hypotheses_and_scores(translated)) == sentences


@pytest.mark.long
def test_hydra_refuses_presets_by_name(toy_data, tmp_path):
    done = hydra_train(toy_data, tmp_path, "model._name=posattn_structural_tiny", check=False)
    assert done.returncode
    assert "model=structural size=" in done.stdout
