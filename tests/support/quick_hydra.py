"""Hydra composes the options of fairseq once, for all programs in a test's process.

fairseq has hydra parse and compose every option of every command line, which takes 0.3 s: half the
time of the tests that call fairseq's programs. Here a configuration that hydra composed before is
copied, and hydra sets only those options that have other values. Where it composes options for the
first time, it reuses what it made of the same texts and of the same choices of classes. A test
compares the results with those of hydra itself. hydra has no public way to do this, so this file
reaches into it.
"""

import copy
import functools
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import fairseq
import hydra
from fairseq.dataclass import utils
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.override_parser.overrides_parser import OverridesParser

OPTIONS = Path(fairseq.__file__).parent / "config"
COMPOSED: dict = {}
DEFAULTS: dict = {}
compose = utils.compose
parse_rule = OverridesParser.parse_rule
compose_defaults = getattr(ConfigLoaderImpl, "_compose_config_from_defaults_list", None)


@functools.cache
def parsed_rule(text: str, rule: str):
    """Return what hydra makes of a part of an option."""
    return parse_rule(OverridesParser.create(), text, rule)


@functools.cache
def parsed(text: str):
    """Return what hydra reads from the text of one option."""
    return OverridesParser.create().parse_overrides([text])[0]


def share_sources(self, delegate) -> None:
    """Stand for CachingConfigRepository.__init__, which copies what no test changes."""
    self.delegate, self.cache = delegate, {}


def composed_defaults(self, defaults, repo):
    """Return a copy of what hydra composed of the same classes before."""
    key = repr(defaults)
    if key not in DEFAULTS:
        DEFAULTS[key] = compose_defaults(self, defaults, repo)
    return copy.deepcopy(DEFAULTS[key])


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
    ConfigLoaderImpl._apply_overrides_to_config([*map(parsed, changed)], config)
    return config


@contextmanager
def quick_hydra():
    """Let fairseq reuse what hydra composed."""
    with (
        mock.patch.object(OverridesParser, "parse_rule", lambda _, *text: parsed_rule(*text)),
        mock.patch.object(CachingConfigRepository, "__init__", share_sources),
        mock.patch.object(
            ConfigLoaderImpl, "_compose_config_from_defaults_list", composed_defaults
        ),
        mock.patch.object(utils, "compose", composed),
        mock.patch.object(utils, "initialize", lambda **_: nullcontext()),
    ):
        yield
