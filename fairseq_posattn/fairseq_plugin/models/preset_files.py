"""Read model presets from the YAML files in config/, which are used by both --arch and hydra.

Each file sets options of a model. A value such as ${model.encoder_embed_dim} refers to another
option. Like fairseq's presets, these presets set only options that the user does not set.
"""

from pathlib import Path
from typing import Any

import yaml
from fairseq.models import register_model_architecture
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairseq_posattn.errors import InputError

CONFIG = Path(__file__).parents[1] / "config"
Options = dict[str, Any]


def read_group(group: str) -> dict[str, Options]:
    """Return the options of all presets in a group, keyed by file name without suffix."""
    return {path.stem: read_options(path) for path in sorted(CONFIG.glob(f"{group}/*.yaml"))}


def read_options(path: Path) -> Options:
    """Return the options of a preset; raise an InputError if the file is damaged."""
    try:
        options = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(options, dict) or not all(map(is_option, options.items())):
            raise ValueError("it does not consist of lines 'option: value'")
        OmegaConf.to_container(OmegaConf.create({"model": options}), resolve=True)
    except (yaml.YAMLError, OmegaConfBaseException, ValueError, RecursionError) as error:
        found = str(error).partition("\n")[0]
        raise InputError(
            f"{path}: the preset is damaged ({found}); repair it, or reinstall the package"
        ) from error
    return {name: value for name, value in options.items() if name != "_name"}


def is_option(item: tuple[object, object]) -> bool:
    """Return whether a name-value pair is a valid option."""
    name, value = item
    is_name = isinstance(name, str) and name.isidentifier()
    return is_name and isinstance(value, str | int | float | None)


def fill_in(args, preset: Options) -> None:
    """Set the options of a preset that the user has not set."""
    given = {name: getattr(args, name) for name in preset if hasattr(args, name)}
    whole = OmegaConf.create({"model": {**preset, **given}})  # what ${model...} refers to
    chosen: Any = OmegaConf.to_container(whole, resolve=True)
    for name, value in chosen["model"].items():
        if name not in given:
            setattr(args, name, value)


def register_preset(model: str, name: str, preset: Options) -> None:

    def architecture(args):
        fill_in(args, preset)

    register_model_architecture(model, name)(architecture)
