"""Write config/options, which lists every option of a model with its default.

fairseq-hydra-train puts a configuration together from files before it imports the plug-in, and a
user can override only what these files list. So they repeat what the dataclasses say, and

    python -m fairseq_posattn.glue.models.option_files

writes them from the dataclasses.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import yaml

from fairseq_posattn.glue.models.config import PosattnTransformerConfig
from fairseq_posattn.glue.models.preset_files import CONFIG, Options
from fairseq_posattn.glue.models.san_tagger import SanTaggerConfig
from fairseq_posattn.io.atomic import written_whole

MODELS = {"posattn_transformer": PosattnTransformerConfig, "san_tagger": SanTaggerConfig}
HEADER = """\
# @package model
# This lists every option of {name} with its default, which other files change.
# python -m fairseq_posattn.glue.models.option_files writes it.
"""


def path_of(name: str) -> Path:
    """Return the path of the file that lists the options of a model."""
    return CONFIG / "options" / f"{name}.yaml"


def defaults(name: str) -> Options:
    """Return the default of each option of a model."""
    return {
        field.name: plain(field.default) for field in fields(MODELS[name]) if field.name != "_name"
    }


def plain(value):
    """Return a default as YAML can write it, because a member of a choice is a kind of string."""
    return str(value) if isinstance(value, str) else value


def text(name: str) -> str:
    """Return the text that the file of a model must have."""
    return HEADER.format(name=name) + yaml.safe_dump(defaults(name), sort_keys=False)


def main() -> None:
    """Write the files of all models."""
    for name in MODELS:
        with written_whole(path_of(name)) as file:
            file.write(text(name))


if __name__ == "__main__":
    main()
