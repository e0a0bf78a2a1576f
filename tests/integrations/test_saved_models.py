"""Folders of save_pretrained: what is missing, superfluous, changed or not finite is refused."""

import json

import pytest
import torch

pytest.importorskip("transformers")
import transformers as hf
from safetensors.torch import load_file, save_file

from fairseq_posattn.errors import InputError
from fairseq_posattn.integrations.attention_interface import NAME
from fairseq_posattn.integrations.hugging_face import add_attention, from_pretrained
from support.tiny_models import FAMILIES, batch, outputs, random_model

KIND = hf.BartForConditionalGeneration
SPECIFICATION = "relative(max=3) + tree_relative + t5_bias"


@pytest.fixture
def saved(tmp_path):
    """Return a folder of a version that stored no checksums, so that its files can be changed."""
    model = add_attention(random_model("Bart"), SPECIFICATION)
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model/posattn.sha256").unlink(missing_ok=True)
    return tmp_path / "model"


def refused(folder, message):
    with pytest.raises(InputError, match=message) as caught:
        from_pretrained(KIND, folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def change_weights(folder, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, {"format": "pt"})


def change_config(folder, **values):
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps(config))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", ["50GB", 20_000])
def test_every_family_is_loaded_as_it_was_saved(name, size, tmp_path):
    """Tied weights and computed tables are not stored in the files."""
    model = add_attention(random_model(name), SPECIFICATION)
    model.save_pretrained(tmp_path, max_shard_size=size)
    again = from_pretrained(getattr(hf, FAMILIES[name][0]), tmp_path).eval()
    assert torch.equal(outputs(again, batch()), outputs(model, batch()))


def test_what_cannot_be_loaded(tmp_path, saved):
    random_model("Bart").save_pretrained(tmp_path / "plain")
    refused(tmp_path / "plain", "the model has no mechanisms; use BartForConditionalGen")
    refused(tmp_path / "nowhere", "config.json does not exist; give the path of a folder")
    (saved / "model.safetensors").unlink()
    refused(saved, 'model.safetensors: the weights file "model.safetensors" is missing; save the m')
    (saved / "model.safetensors").write_bytes(b"\0" * 100)
    refused(saved, "model.safetensors: cannot read the weights")


def without(part: str):
    return lambda weights: [weights.pop(key) for key in list(weights) if part in key]


def spoilt(end: str, value: float):
    def change(weights):
        key = next(key for key in weights if key.endswith(end))
        weights[key].view(-1)[0] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("encoder.layers.1.fc1.weight"), "'.*encoder.layers.1.fc1.weight' is missing"),
        (without("model.shared.weight"), "'lm_head.weight' is missing"),  # which is tied to it
        (without(NAME), f"the weight '.*{NAME}.*' is missing; save the model again"),
        (
            lambda weights: weights.update({"model.encoder.layers.0.posattn": torch.zeros(1)}),
            "the weight 'model.encoder.layers.0.posattn' does not belong to the model in config.js",
        ),
        (spoilt("fc1.weight", float("nan")), "'.*fc1.weight' contains values that are not finite"),
        (spoilt("relative.keys", float("inf")), "'.*relative.keys' contains values that are not"),
        (spoilt("final_logits_bias", float("-inf")), "'.*final_logits_bias' contains values that"),
    ],
)
def test_weights_that_do_not_fit(saved, change, message):
    change_weights(saved, change)
    refused(saved, message)


def test_a_config_of_fewer_or_more_layers(saved):
    change_config(saved, encoder_layers=1)
    refused(
        saved, r"the weight 'model.encoder.layers.1.*' does not belong to the model in config.json"
    )
    change_config(saved, encoder_layers=3)
    refused(saved, r"the weight 'model.encoder.layers.2.* is missing")
    change_config(saved, encoder_layers="three")
    refused(saved, r"BartForConditionalGeneration cannot load the model \(")


def test_other_files_of_weights(saved, tmp_path):
    other = random_model("Bart")
    other.save_pretrained(tmp_path / "other", max_shard_size=20_000)
    for path in (tmp_path / "other").glob("model-*"):
        path.rename(saved / path.name)
    refused(
        saved,
        r"model-00001-.* is not part of the model, whose weights are in model.safetensors; re",
    )


def test_weights_that_are_stored_twice(tmp_path):
    model = add_attention(random_model("Bart"), SPECIFICATION)
    model.save_pretrained(tmp_path, max_shard_size=20_000)
    (tmp_path / "posattn.sha256").unlink()
    first, second, *_ = sorted(tmp_path.glob("*.safetensors"))
    save_file({**load_file(first), **load_file(second)}, second, {"format": "pt"})
    refused(tmp_path, f"{second.name}: '.*' is also in {first.name}; save the model again")


ENTRY = {"specification": "relative(max=3)", "layers": None}
DAMAGED = {
    "no object": ("x", 'the document is "x", expected an object'),
    "another side": ({"both": ENTRY}, '"both" is not a known key'),
    "no specification": ({"encoder": {"layers": None}}, "encoder.specification is missing"),
    "an unknown name": ({"encoder": {**ENTRY, "specification": "x"}}, "is called 'x'"),
    "a layer beyond": ({"encoder": {**ENTRY, "layers": [7]}}, "there is no layer 7"),
    "other shapes": (
        {"encoder": {**ENTRY, "specification": SPECIFICATION.replace("3", "4")}},
        r"relative.keys' has the shape \[1, 7, 8\], but the mechanisms in config.json need \[1, 9,",
    ),
    "fewer mechanisms": (
        {"encoder": ENTRY},
        "the weight '.*' does not belong to the model in config.json",
    ),
    "a decoder, too": (
        {"encoder": {**ENTRY, "specification": SPECIFICATION}, "decoder": ENTRY},
        r"the weight 'model.decoder.* is missing",
    ),
    "128 GB": (
        {"encoder": {**ENTRY, "specification": "relative(max=999999999)"}},
        "max=999999999 is out of range; use a number within ",
    ),
}


@pytest.mark.parametrize(("entry", "message"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_entry_of_the_config(saved, entry, message):
    change_config(saved, posattn=entry)
    refused(saved, message)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "model.safetensors"])
def test_a_file_that_changed_since_it_was_saved(name, tmp_path):
    add_attention(random_model("Bart"), SPECIFICATION).save_pretrained(tmp_path)
    from_pretrained(KIND, tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[-20] ^= 1  # in the weights, this is another number
    (tmp_path / name).write_bytes(data)
    refused(tmp_path, f"{name} is missing, or its SHA-256 differs from the one in posattn.sha256")
    (tmp_path / name).unlink()
    refused(tmp_path, f"{name} is missing, or its SHA-256 differs from the one in posattn.sha256")


def test_a_model_that_is_saved_twice(tmp_path):
    """The sums are those of the last time; a process that is not the main one writes none."""
    model = add_attention(random_model("Bart"), SPECIFICATION)
    model.save_pretrained(tmp_path / "other", is_main_process=False)
    assert not (tmp_path / "other/posattn.sha256").exists()
    model.save_pretrained(save_directory=tmp_path)
    torch.nn.init.ones_(next(model.parameters()))
    model.save_pretrained(tmp_path)
    again = from_pretrained(KIND, tmp_path).eval()
    assert torch.equal(outputs(again, batch()), outputs(model, batch()))
