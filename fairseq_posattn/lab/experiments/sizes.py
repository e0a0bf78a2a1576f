"""Know the sizes of translation models that recipes share, and fit them to a corpus."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.code_version import CHECKOUT
from fairseq_posattn.io.records import as_record
from fairseq_posattn.lab.experiments.recipe_content import Size

FILE = CHECKOUT / "fairseq_posattn/glue/config/sizes.toml"
DEMO = "demo"  # for a CPU
LARGE = 200_000  # pairs
FEW = 10_000  # pairs; fewer are learnt by heart long before the updates of a demo are over


@cache
def shared_sizes() -> dict[str, dict[str, Any]]:
    """Return the sizes as they stand in their file, by name."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def with_shared(name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a size of a recipe with the shared values where it names no `arch` of its own."""
    shared = shared_sizes().get(name)
    if "arch" in given or shared is None:
        return given
    training = given.get("training", {})
    both = {**shared["training"], **training} if isinstance(training, dict) else training
    return {**shared, **given, "training": both}


def fitted(name: str, pairs: int) -> dict[str, Any]:
    """Return what a size has otherwise for so many pairs of sentences for training."""
    if name != DEMO or pairs >= FEW:
        return {}
    return {"updates": 1200, "training": {"dropout": 0.2, "warmup-updates": 200}}


def size_on_gpus(pairs: int) -> str:
    """Return the size that suits so many pairs of sentences on GPUs."""
    return "base" if pairs >= LARGE else "small"


def symbols(pairs: int) -> int:
    """Return how many merges or sentence pieces suit so many pairs of sentences."""
    return 32000 if pairs >= LARGE else 8000 if pairs >= FEW else 4000


def size_for(name: str, pairs: int) -> Size:
    """Return a shared size, fitted to so many pairs of sentences."""
    found = with_shared(name, fitted(name, pairs))
    if "arch" not in found:
        raise InputError(f"there is no size '{name}'; choose one of: {' '.join(shared_sizes())}")
    return as_record(Size, dict(found), str(FILE), "install the package again")
