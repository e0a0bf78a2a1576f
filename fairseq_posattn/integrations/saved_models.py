"""Load models with mechanisms that were saved with save_pretrained, and check them strictly.

transformers initialises missing weights randomly, and ignores unknown files and weights. This
module raises an error in each of these cases.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import read_json_value, read_lines, sha256
from fairseq_posattn.files.records import Open, as_record, read_record, shown
from fairseq_posattn.integrations.attention_interface import NAME

CONFIG, WEIGHTS, SUMS = "config.json", "model.safetensors", f"{NAME}.sha256"
INDEX = f"{WEIGHTS}.index.json"
SAVED = (CONFIG, "generation_config.json", "*.safetensors", INDEX)
AGAIN = "save the model again"


@dataclass(frozen=True)
class Added:
    """The arguments of add_attention for the encoder or decoder of a model."""

    specification: str
    layers: list[int] | None


@dataclass(frozen=True)
class Sides:
    """The entry `posattn` in config.json."""

    encoder: Added | None = None
    decoder: Added | None = None


@dataclass(frozen=True)
class Index(Open):
    """The index file of a model whose weights are stored in several files."""

    weight_map: dict[str, str]


def added_in(folder: Path, kind: str) -> dict[str, Added]:
    """Return the arguments of add_attention for encoder and decoder, as recorded in config.json."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(
            f"{path} does not exist; give the path of a folder that save_pretrained has written"
        )
    config = read_json_value(path, AGAIN)
    if not isinstance(config, dict) or not config.get(NAME):
        raise InputError(f"{path}: the model has no mechanisms; use {kind}.from_pretrained")
    sides = as_record(Sides, config[NAME], f"{path}, {NAME}", AGAIN)
    return {side: added for side, added in vars(sides).items() if added}


def write_sums(folder: Path) -> None:
    """Write the SHA-256 of each saved file, in the format of sha256sum."""
    saved = sorted({path for pattern in SAVED for path in folder.glob(pattern)})
    with written_whole(folder / SUMS) as file:
        for path in saved:
            file.write(f"{sha256(path)}  {path.name}\n")


def check_sums(folder: Path) -> None:
    """Raise an InputError if a file is missing or was changed after it was saved."""
    if not (folder / SUMS).exists():  # saved by an older version
        return
    for line in read_lines(folder / SUMS):
        digest, _, name = line.partition("  ")
        path = folder / Path(name).name
        if not path.is_file() or sha256(path) != digest:
            raise InputError(
                f"{path} is missing, or its SHA-256 differs from the one in {SUMS}; {AGAIN}, or "
                f"delete {SUMS} if you changed the file on purpose"
            )


def weight_files(folder: Path) -> list[Path]:
    """Return the files with the model's weights.

    Raise an InputError if one of them is missing, or if a weight file does not belong to the model.
    """
    expected = {WEIGHTS}
    if (folder / INDEX).exists():
        expected = set(read_record(Index, folder / INDEX, AGAIN).weight_map.values())
    found = {path.name for path in folder.glob("*.safetensors")}
    if lacking := sorted(expected - found):
        where = INDEX if (folder / INDEX).exists() else WEIGHTS
        raise InputError(
            f"{folder / where}: the weights file {shown(lacking[0])} is missing; {AGAIN}"
        )
    if others := sorted(found - expected):
        raise InputError(
            f"{folder / others[0]} is not part of the model, whose weights are in {min(expected)}; "
            "remove it"
        )
    return [folder / name for name in sorted(expected)]


def own_weights(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Return the weights of the mechanisms; raise an InputError if a weight is stored twice."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, Path] = {}
    ours: dict[str, Tensor] = {}
    for path in paths:
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118 (file is not a dictionary)
                    if name in found:
                        raise InputError(f"{path}: '{name}' is also in {found[name].name}; {AGAIN}")
                    found[name] = path
                    if NAME in name:
                        ours[name] = file.get_tensor(name)
        except SafetensorError as error:
            raise InputError(f"{path}: cannot read the weights ({error}); {AGAIN}") from None
    return ours


def load(kind: Any, folder: Path, options: dict[str, Any]) -> tuple[Any, set[str]]:
    """Load a model without its mechanisms; return the model and the names of unused weights."""
    try:
        with only_errors():
            model, info = kind.from_pretrained(folder, **options, output_loading_info=True)
    except Exception as error:  # a damaged folder can raise almost any exception
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(
            f"{folder}: {kind.__name__} cannot load the model ({reason[:150]}); {AGAIN}"
        ) from error
    if missing := sorted(info["missing_keys"]):
        raise missing_weight(folder, missing[0])
    return model, set(info["unexpected_keys"])


def load_own(model: Any, weights: dict[str, Tensor], unused: set[str], folder: Path) -> None:
    """Load the weights of the mechanisms; raise an InputError if they do not match the model."""
    expected = {name: tensor for name, tensor in model.state_dict().items() if NAME in name}
    if missing := sorted(expected.keys() - weights.keys()):
        raise missing_weight(folder, missing[0])
    if unused := (unused | weights.keys()) - expected.keys():
        raise InputError(
            f"{folder}: the weight '{min(unused)}' does not belong to the model in {CONFIG}; "
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
            raise InputError(f"{folder}: '{name}' contains values that are not finite; {AGAIN}")


def missing_weight(folder: Path, name: str) -> InputError:
    return InputError(f"{folder}: the weight '{name}' is missing; {AGAIN}")


@contextmanager
def only_errors() -> Iterator[None]:
    """Suppress transformers' warnings about weights, because load and load_own check them."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
