"""Folders that save_pretrained wrote: load a model with its mechanisms, and check what was loaded.

transformers replaces missing weights by random numbers and ignores files and weights that it does
not know. Here all of that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_posattn.doors.attention_interface import NAME
from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.files import read_json_value, read_lines
from fairseq_posattn.io.records import Open, as_record, read_record, shown

CONFIG, WEIGHTS, SUMS = "config.json", "model.safetensors", f"{NAME}.sha256"
INDEX = f"{WEIGHTS}.index.json"
SAVED = (CONFIG, "generation_config.json", "*.safetensors", INDEX)
AGAIN = "save the model again"


@dataclass(frozen=True)
class Added:
    """The arguments of add_attention for one side of a model."""

    specification: str
    layers: list[int] | None


@dataclass(frozen=True)
class Sides:
    """The entry `posattn` of a config.json."""

    encoder: Added | None = None
    decoder: Added | None = None


@dataclass(frozen=True)
class Index(Open):
    """The index of weights that are stored in several files."""

    weight_map: dict[str, str]


def added_in(folder: Path, kind: str) -> dict[str, Added]:
    """Return what add_attention was called with, by side, from config.json."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{path}: there is no such file; give a folder that save_pretrained wrote")
    config = read_json_value(path, AGAIN)
    if not isinstance(config, dict) or not config.get(NAME):
        raise InputError(f"{path}: this model has no mechanisms; load it by {kind}.from_pretrained")
    sides = as_record(Sides, config[NAME], f"{path}, {NAME}", AGAIN)
    return {side: added for side, added in vars(sides).items() if added}


def write_sums(folder: Path) -> None:
    """Write the SHA-256 of each saved file, in the format of sha256sum."""
    saved = sorted({path for pattern in SAVED for path in folder.glob(pattern)})
    with written_whole(folder / SUMS) as file:
        for path in saved:
            file.write(f"{sha256(path)}  {path.name}\n")


def check_sums(folder: Path) -> None:
    """Refuse a folder with a file that changed since it was saved."""
    if not (folder / SUMS).exists():  # an older version saved it
        return
    for line in read_lines(folder / SUMS):
        digest, _, name = line.partition("  ")
        path = folder / Path(name).name
        if not path.is_file() or sha256(path) != digest:
            raise InputError(
                f"{path}: the file is missing or its SHA-256 is not the one in {SUMS}; {AGAIN}, or "
                f"delete {SUMS} if you changed the file on purpose"
            )


def weight_files(folder: Path) -> list[Path]:
    """Return the files of the weights; refuse other files that may contain weights, too."""
    expected = {WEIGHTS}
    if (folder / INDEX).exists():
        expected = set(read_record(Index, folder / INDEX, AGAIN).weight_map.values())
    found = {path.name for path in folder.glob("*.safetensors")}
    if lacking := sorted(expected - found):
        where = INDEX if (folder / INDEX).exists() else WEIGHTS
        raise InputError(
            f"{folder / where}: the file of weights {shown(lacking[0])} is missing; {AGAIN}"
        )
    if others := sorted(found - expected):
        raise InputError(
            f"{folder / others[0]}: the model's weights are in {min(expected)}; remove this file"
        )
    return [folder / name for name in sorted(expected)]


def own_weights(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Return the weights of mechanisms; refuse weights that are stored twice."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, Path] = {}
    ours: dict[str, Tensor] = {}
    for path in paths:
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 (it is no dictionary)
                    if name in found:
                        raise InputError(f"{path}: '{name}' is in {found[name].name}, too; {AGAIN}")
                    found[name] = path
                    if NAME in name:
                        ours[name] = file.get_tensor(name)
        except SafetensorError as error:
            raise InputError(f"{path}: cannot read the weights ({error}); {AGAIN}") from None
    return ours


def load(kind: Any, folder: Path, options: dict[str, Any]) -> tuple[Any, set[str]]:
    """Return a model without its mechanisms, and the names of weights that were not used."""
    try:
        with only_errors():
            model, info = kind.from_pretrained(folder, **options, output_loading_info=True)
    except Exception as error:  # a damaged folder can raise almost any
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"{folder}: {kind.__name__} cannot load it: {reason[:150]}") from error
    if missing := sorted(info["missing_keys"]):
        raise missing_weight(folder, missing[0])
    return model, set(info["unexpected_keys"])


def load_own(model: Any, weights: dict[str, Tensor], unused: set[str], folder: Path) -> None:
    """Give the mechanisms of a model their weights, and check that nothing is left over."""
    expected = {name: tensor for name, tensor in model.state_dict().items() if NAME in name}
    if missing := sorted(expected.keys() - weights.keys()):
        raise missing_weight(folder, missing[0])
    if unused := (unused | weights.keys()) - expected.keys():
        raise InputError(
            f"{folder}: the model in {CONFIG} has no weight '{min(unused)}', which is in the file; "
            f"{AGAIN}"
        )
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            raise InputError(
                f"{folder}: '{name}' has the shape {list(tensor.shape)}, but the mechanisms in "
                f"{CONFIG} need {list(expected[name].shape)}; {AGAIN}"
            )
    model.load_state_dict(weights, strict=False)
    for name, tensor in model.state_dict().items():
        if not tensor.isfinite().all():
            raise InputError(f"{folder}: '{name}' has values that are not finite; {AGAIN}")


def missing_weight(folder: Path, name: str) -> InputError:
    return InputError(f"{folder}: the weight '{name}' is missing; {AGAIN}")


@contextmanager
def only_errors() -> Iterator[None]:
    """Turn off transformers' report about weights, which are checked here."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
