"""hydra's YAML files: they are the presets, and all options of a model can be overridden."""

import pytest
import yaml
from hydra import compose, initialize_config_dir
from test_presets import MODELS, SIZES, of_architecture

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.fairseq_plugin.models.config import PosattnTransformerConfig
from support.commands import PLUGIN, fairseq, generate
from support.in_process import hypotheses_and_scores

CONFIG = PLUGIN / "fairseq_plugin/config"
FILES = [size.removeprefix("_") for size in SIZES if size]


def composed(*overrides: str, name: str = "structured_translation") -> dict:
    """The model that hydra makes of the shipped files."""
    with initialize_config_dir(str(CONFIG)):
        return dict(compose(name, overrides=list(overrides)).model)


@pytest.mark.parametrize(
    ("model", "size"),
    [
        *((model, "wmt_en_de") for model in MODELS),
        *((model, size) for model in ("structural", "transformer") for size in FILES),
    ],
)
def test_yaml_is_the_preset(model, size):
    """Every model and every size, not every pair: see `test_models_and_sizes_do_not_overlap`."""
    chosen = composed(f"model={model}", f"size={size}")
    assert chosen.pop("_name") == "posattn_transformer"
    filled = {**vars(PosattnTransformerConfig()), **chosen}
    preset = of_architecture(f"posattn_{model}_{size}")
    for name in ("decoder_input_dim", "decoder_output_dim"):  # None: that of the embedding
        assert filled.pop(name) is None
        assert preset.pop(name) == preset["decoder_embed_dim"]
    assert {key: filled[key] for key in preset} == preset


def test_every_yaml_file_is_known():
    assert {path.stem for path in CONFIG.glob("model/*.yaml")} == {*MODELS, "transformer"}
    assert {path.stem for path in CONFIG.glob("size/*.yaml")} == set(FILES)


def test_an_option_that_the_files_leave_open_is_added_with_a_plus():
    assert "activation_fn" not in composed()
    assert composed("+model.activation_fn=gelu")["activation_fn"] == "gelu"


def test_the_decoder_follows_the_width_of_the_encoder():
    for size in ("tiny", "wmt_en_de"):
        model = composed(f"size={size}", "model.encoder_embed_dim=32")
        assert model["decoder_embed_dim"] == 32


@pytest.mark.parametrize(("size", "width"), [("ud", 128), ("ptb", 300)])
def test_sizes_of_the_tagger(size, width):
    options = composed(f"tagger_size={size}", "tagger=conv", name="tagging")
    suffix = {"ud": "", "ptb": "_ptb"}[size]
    preset = of_architecture(f"san_tagger_conv{suffix}")
    assert {key: options[key] for key in preset} == preset
    assert options["encoder_embed_dim"] == width


def test_models_and_sizes_do_not_overlap():
    models, sizes = (
        {
            option
            for path in CONFIG.glob(f"{group}/*.yaml")
            for option in yaml.safe_load(path.open())
        }
        for group in ("model", "size")
    )
    assert not models & sizes


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
    assert not list(folder.glob("*.log"))
    hydra_train(toy_data, folder, "model=structural", attention, "optimization.max_update=5")
    translated = generate(toy_data, folder / "checkpoint_last.pt").stdout
    assert f"--encoder-attention '{canonical}'" in translated
    sentences = (toy_data.parent / "test.src").read_text().count("\n")
    assert len(hypotheses_and_scores(translated)) == sentences


@pytest.mark.long
def test_hydra_leaves_a_finished_training_as_it_is(toy_data, tmp_path):
    hydra_train(toy_data, tmp_path)
    last = (tmp_path / "checkpoint_last.pt").read_bytes()
    output = hydra_train(toy_data, tmp_path).stdout
    assert "This training is finished: it has made 3 updates" in output
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == last


@pytest.mark.long
def test_hydra_refuses_presets_by_name(toy_data, tmp_path):
    done = hydra_train(toy_data, tmp_path, "model._name=posattn_structural_tiny", check=False)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    line = done.stdout.splitlines()[-1]
    assert line.startswith("error: ") and "model=structural size=" in line
