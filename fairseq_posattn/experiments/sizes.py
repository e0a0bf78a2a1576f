"""Define the model sizes shared by translation recipes, and adjust them to the corpus size."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.recipe_content import Size
from fairseq_posattn.files.records import as_record
from fairseq_posattn.files.version import CHECKOUT

FILE = CHECKOUT / "fairseq_posattn/fairseq_plugin/config/sizes.toml"
DEMO = "demo"  # for a CPU
LARGE = 200_000  # sentence pairs
FEW = 10_000  # sentence pairs; with fewer, the number of updates of `demo` leads to overfitting


@cache
def shared_sizes() -> dict[str, dict[str, Any]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def with_shared(name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Complete a recipe's size with the values of the shared size of the same name.

    A size that sets `arch` is returned unchanged.
    """
    shared = shared_sizes().get(name)
    if "arch" in given or shared is None:
        return given
    training = given.get("training", {})
    both = {**shared["training"], **training} if isinstance(training, dict) else training
    return {**shared, **given, "training": both}


def fitted(name: str, pairs: int) -> dict[str, Any]:
    """Return the hyper-parameters that must be changed for a small corpus.

    pairs: number of training sentence pairs.
    """
    if name != DEMO or pairs >= FEW:
        return {}
    return {"updates": 1200, "training": {"dropout": 0.2, "warmup-updates": 200}}


def size_on_gpus(pairs: int) -> str:
    """Return the recommended model size on GPUs for this number of training sentence pairs."""
    return "base" if pairs >= LARGE else "small"


def symbols(pairs: int) -> int:
    """Return the recommended number of subword units for this number of sentence pairs."""
    return 32000 if pairs >= LARGE else 8000 if pairs >= FEW else 4000


def size_for(name: str, pairs: int) -> Size:
    """Return a size that all recipes share, adjusted to the number of training pairs."""
    found = with_shared(name, fitted(name, pairs))
    if "arch" not in found:
        raise InputError(f"unknown size '{name}'; choose among {' '.join(shared_sizes())}")
    return as_record(Size, dict(found), str(FILE), "install the package again")
