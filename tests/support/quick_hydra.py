"""Hydra composes the options of fairseq once, for all programs in a test's process.

fairseq has hydra parse and compose every option of every command line, which takes 0.4 s: half the
time of the tests that call fairseq's programs. Here a configuration that hydra composed before is
copied, and hydra sets only those options that have other values. A test compares the results with
those of hydra itself. hydra has no public way to do this, so this file reaches into it.
"""

import copy
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import fairseq
import hydra
from fairseq.dataclass import utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser

OPTIONS = Path(fairseq.__file__).parent / "config"
COMPOSED: dict = {}
compose = utils.compose


def composed(name: str, overrides: list[str], **options):
    """Stand for hydra's `compose`: copy a configuration of the same options, and set what differs.

    A choice of a class (`task=translation`) brings its options with it, so it must be the same;
    an option whose value is a table (`common.x={a: 1}`) would be merged with the value before it.
    """
    names = [text.partition("=")[0] for text in overrides]
    fixed = [text for text in overrides if "." not in text.partition("=")[0] or "={" in text]
    key = (name, *names, *fixed)
    if key not in COMPOSED or len(set(names)) < len(names):
        with hydra.initialize_config_dir(str(OPTIONS)):
            config = compose(name, overrides=overrides, **options)
        COMPOSED[key] = overrides, copy.deepcopy(config)
        return config
    known, config = COMPOSED[key]
    config = copy.deepcopy(config)
    changed = [new for old, new in zip(known, overrides, strict=True) if new != old]
    parsed = OverridesParser.create().parse_overrides(changed)
    ConfigLoaderImpl._apply_overrides_to_config(parsed, config)
    return config


@contextmanager
def quick_hydra():
    """Let fairseq reuse what hydra composed."""
    with (
        mock.patch.object(utils, "compose", composed),
        mock.patch.object(utils, "initialize", lambda **_: nullcontext()),
    ):
        yield
