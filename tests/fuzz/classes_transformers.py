"""Folders of transformers models with mechanisms, as save_pretrained writes them.

With checksums, every change is noticed. Without them, as in folders of older versions, weights
that are missing, superfluous or not finite are, and damaged entries of the mechanisms.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from random import Random

from .mutations import BYTES, JSON, OFFSETS, on_json
from .registry import add, calling, content

SPECIFICATION = "relative(max=3) + tree_relative(max=2)"

# transformers imports it where it is installed, and a build for CUDA cannot be imported here
sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]


def build(folder: Path, of_decoder: str = "rope + relative(max=2)") -> None:
    from fairseq_posattn.integrations.hugging_face import add_attention
    from support.tiny_models import random_model

    model = add_attention(random_model("Bart"), SPECIFICATION, layers=[0])
    add_attention(model, of_decoder, side="decoder").save_pretrained(folder)


def build_without_sums(folder: Path) -> None:
    """Without mechanisms that have no parameters, whose options only a checksum protects."""
    build(folder, "relative(max=2)")
    (folder / "posattn.sha256").unlink()


def build_in_pieces(folder: Path) -> None:
    from fairseq_posattn.integrations.hugging_face import add_attention
    from support.tiny_models import random_model

    model = add_attention(random_model("Bart"), SPECIFICATION)
    model.save_pretrained(folder, max_shard_size=30_000)
    (folder / "posattn.sha256").unlink()


def compute(folder: Path) -> None:
    """Write what the model in the folder computes."""
    import torch
    from transformers import BartForConditionalGeneration

    from fairseq_posattn.integrations.hugging_face import from_pretrained
    from support.tiny_models import batch, outputs

    with torch.no_grad():
        found = outputs(from_pretrained(BartForConditionalGeneration, folder).eval(), batch())
    (folder / "out").write_bytes(found.numpy().tobytes())


def on_weights(change) -> object:
    """Return a mutation of a file of weights: (weights, name of one, random)."""

    def mutate(data: bytes, random: Random) -> bytes:
        from safetensors import SafetensorError
        from safetensors.torch import load, save

        with contextlib.suppress(SafetensorError, ValueError, KeyError):  # it is damaged already
            weights = load(data)
            change(weights, random.choice(sorted(weights)), random)
            return save(weights, {"format": "pt"})
        return data

    mutate.__name__ = change.__name__
    return mutate


@on_weights
def remove_a_weight(weights, name, random):
    del weights[name]


@on_weights
def rename_a_weight(weights, name, random):
    other = random.choice([f"{name}_", name.replace(".0.", ".1."), name.replace("model.", ""), "x"])
    weights[other] = weights.pop(name)


@on_weights
def add_a_weight(weights, name, random):
    new = random.choice(["x", f"{name}.posattn", f"{name}_", "model.encoder.layers.9.fc1.bias"])
    weights[new] = weights[name].flatten()[:2].clone()


@on_weights
def no_finite_number(weights, name, random):
    flat = weights[name].view(-1)
    flat[random.randrange(len(flat))] = random.choice([float("nan"), float("inf"), -float("inf")])


@on_weights
def another_shape(weights, name, random):
    shape = random.choice([(-1,), (1, -1), (-1, 1), (*weights[name].shape, 1)])
    weights[name] = weights[name].reshape(shape)


WEIGHTS = [remove_a_weight, rename_a_weight, add_a_weight, no_finite_number, another_shape]


def on_entry(mutation):
    """Return a mutation of the entry of the mechanisms in config.json."""

    def mutate(data: bytes, random: Random) -> bytes:
        try:
            config = json.loads(data)
            entry = json.dumps(config["posattn"]).encode()
        except (ValueError, KeyError, TypeError, RecursionError):
            return data
        marked = json.dumps({**config, "posattn": "\ue000"}, ensure_ascii=False).encode()
        return marked.replace('"\ue000"'.encode(), mutation(entry, random))

    mutate.__name__ = f"{mutation.__name__}_of_the_entry"
    return mutate


@on_json
def another_layer(container, key, random):
    if key == "layers" or isinstance(container, list):
        container[key] = random.choice([[0], [1], [0, 1], [], None, [2], [-1], [True], 0])


@on_json
def another_specification(container, key, random):
    if key == "specification":
        part = random.choice(
            ["relative", "tree_relative", "max=3", "max=2", "+", "(", "rope", "true"]
        )
        other = random.choice(
            ["", "x", "max=999999999999", "window", "max=-1", "@0", "false", "t=9"]
        )
        container[key] = container[key].replace(part, other)


ENTRIES = [on_entry(mutation) for mutation in [*JSON, *[another_layer, another_specification] * 9]]
NAMES = {"also_named": "posattn.sha256 config.json model.safetensors copy:"}


def build_with_others(folder: Path) -> None:
    """The list names the files that are added; there are none at first."""
    build_without_sums(folder)
    (folder / "others").write_text("")


def more_files(data: bytes, random: Random) -> bytes:
    names = ["model-00001-of-00002.safetensors", "model.safetensors.index.json", "x.safetensors"]
    names += ["pytorch_model.bin", "adapter_model.safetensors", "model.fp16.safetensors", "x.bin"]
    return (
        data + f"{random.choice(names)} {random.choice(['weights', 'noise', 'nothing'])}\n".encode()
    )


@add(
    *("transformers: more files", build_with_others, "others", [more_files], "out *.bin"),
    **{"result": content("out"), "share": 0.5, "left": "*.bin *.safetensors *.json"},
    also_named=f"{NAMES['also_named']} .safetensors",
)
@calling
def compute_beside_others(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    for line in (folder / "others").read_text().splitlines():
        name, content = line.split()
        weights = load_file(folder / "model.safetensors")
        if content == "weights":
            save_file({key: -part for key, part in weights.items()}, folder / name)
        else:
            (folder / name).write_bytes(b"x" * 99 if content == "noise" else b"")
    compute(folder)


for name, damaged, mutations, share in (
    ("weights", "model.safetensors", [*OFFSETS, *WEIGHTS * 4], 0.5),
    ("config.json", "config.json generation_config.json", JSON, 0.5),
    ("checksums", "posattn.sha256", BYTES, 0.5),
):
    add(
        *(f"transformers: {name}", build, damaged, mutations, "out"),
        **{"result": content("out"), "share": share, **NAMES},
    )(calling(compute))

for name, builds, damaged, mutations, share in (
    ("weights without checksums", build_without_sums, "model.safetensors", WEIGHTS, 1),
    ("entry without checksums", build_without_sums, "config.json", ENTRIES, 1),
    ("index without checksums", build_in_pieces, "*.index.json", JSON, 0.5),
):
    add(
        *(f"transformers: {name}", builds, damaged, mutations, "out"),
        **{"result": content("out"), "share": share, **NAMES},
    )(calling(compute))
