"""The registry of mechanisms, and the output of `--encoder-attention help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fairseq_posattn.core.attention.alibi import Alibi
from fairseq_posattn.core.attention.block import Block
from fairseq_posattn.core.attention.brackets import Brackets
from fairseq_posattn.core.attention.cnn import Cnn
from fairseq_posattn.core.attention.convolved import Convolved1d, Convolved2d
from fairseq_posattn.core.attention.deps_san import DepsSan
from fairseq_posattn.core.attention.direct import DirectAbsolute, DirectRelative
from fairseq_posattn.core.attention.directional import Directional
from fairseq_posattn.core.attention.disentangled import Disentangled
from fairseq_posattn.core.attention.gaussian import Gaussian
from fairseq_posattn.core.attention.local import LocalHard, LocalSoft
from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.attention.parent_scaled import ParentScaled
from fairseq_posattn.core.attention.relative import Relative, TreeDepthRelative, TreeRelative
from fairseq_posattn.core.attention.rope import Rope
from fairseq_posattn.core.attention.stages import PostAttention, PreAttention
from fairseq_posattn.core.attention.t5_bias import T5Bias
from fairseq_posattn.core.attention.temperature import Temperature
from fairseq_posattn.core.attention.tree_depth_bias import TreeDepthBias
from fairseq_posattn.core.attention.tree_distance import TreeDistance
from fairseq_posattn.core.attention.tree_gcn import TreeGcn
from fairseq_posattn.core.attention.tree_labels import TreeLabels
from fairseq_posattn.core.attention.tree_supervised import TreeSupervised
from fairseq_posattn.core.attention.tree_walk import TreeWalk
from fairseq_posattn.core.attention.tree_window import TreeWindow
from fairseq_posattn.core.attention.window import Window
from fairseq_posattn.core.registration import (
    LEARNS_FROM_TREES,
    NEEDS_LABELS,
    NEEDS_TREES,
    TAKEN_BY_TORCH,
    Row,
    add,
    check_texts,
    help_text,
)
from fairseq_posattn.core.specification import format_numbers, reason_against_decoders

MECHANISMS: dict[str, type[Mechanism]] = {}
MechanismClass = TypeVar("MechanismClass", bound=Mechanism)
INTRODUCTION = """\
Mechanisms for --{side}-attention. Join several by '+', each with its options and layers:

    window(size=11, heads=0-3)@0-2 + {second}

Layers and heads are numbered from 0: 3, 0-2, 0|3, 0-2|5 or, for heads, all. Defaults of
options are shown below. Without '@' a mechanism acts in all layers unless stated otherwise."""


def register(mechanism: type[MechanismClass]) -> type[MechanismClass]:
    """Class decorator that makes a mechanism available in specifications.

        @register
        class Mine(ScoreBias):
            name = "mine"

    Raise a RegistrationError, which states the class and its line number, if the class is invalid.
    """
    add(MECHANISMS, mechanism, Mechanism, "mechanism", TAKEN_BY_TORCH, check_texts)
    return mechanism


for _mechanism in (
    *(Relative, TreeRelative, Window, Directional, Gaussian, LocalHard, LocalSoft, Block, Cnn),
    *(DirectAbsolute, DirectRelative, Temperature, Convolved1d, Convolved2d, ParentScaled),
    *(Alibi, T5Bias, Rope, Disentangled, TreeWindow, TreeDistance, TreeDepthRelative, DepsSan),
    *(TreeLabels, TreeGcn, TreeSupervised, TreeDepthBias, Brackets, TreeWalk),
):
    register(_mechanism)


def reason_against(mechanism: type[Mechanism]) -> str | None:
    if issubclass(mechanism, (PreAttention, PostAttention)):
        return "acts before or after the attention, which only encoders support"
    return reason_against_decoders(mechanism)


def safe_in_decoders() -> dict[str, type[Mechanism]]:
    return {name: m for name, m in MECHANISMS.items() if reason_against(m) is None}


def reason_against_crossing(mechanism: type[Mechanism]) -> str | None:
    """Return why a mechanism cannot be used in cross-attention, or None if it can."""
    if issubclass(mechanism, (PreAttention, PostAttention)):
        return "acts before or after the attention, which only encoders support"
    if not mechanism.cross_safe:
        return "relates pieces of the same sentence, not of source and target"
    if mechanism.needs_labels:
        return "reads word labels, which a decoder does not receive"
    return None


def safe_across() -> dict[str, type[Mechanism]]:
    return {n: m for n, m in sorted(MECHANISMS.items()) if reason_against_crossing(m) is None}


def describe(side: str = "encoder") -> str:
    """Return what `help` prints for an attention option, such as --encoder-attention.

        print(describe("decoder"))

    side: "encoder", "decoder" or "cross".
    """
    tables = {"decoder": safe_in_decoders, "cross": safe_across}
    return description(tables[side]() if side in tables else MECHANISMS, side)


def description(mechanisms: Mapping[str, type[Mechanism]], side: str) -> str:
    """Return the help text of some mechanisms; side: "encoder", "decoder" or "cross"."""
    cross = side == "cross"
    ordered = dict(sorted(mechanisms.items()))
    remarks = {name: remark(mechanism) for name, mechanism in ordered.items()}
    rows = {name: [heads_row(m)] for name, m in ordered.items() if m.accepts_heads}
    introduction = INTRODUCTION.format(side=side, second="gaussian" if cross else "relative")
    others = {n: m.CrossOptions for n, m in ordered.items() if cross and m.CrossOptions}
    return help_text(introduction, ordered, remarks, rows, others)


def remark(mechanism: type[Mechanism]) -> str:
    """Return the requirements and the default layers of a mechanism, for its help text."""
    said = []
    if mechanism.needs_tree:
        said.append(NEEDS_TREES)
    if mechanism.learns_from_trees:
        said.append(LEARNS_FROM_TREES)
    if mechanism.needs_labels:
        said.append(NEEDS_LABELS)
    if mechanism.usual_layers is not None:
        said.append(f"Without '@' it acts in layer {format_numbers(mechanism.usual_layers)} only.")
    return " ".join(said)


def heads_row(mechanism: type[Mechanism]) -> Row:
    """Return the row for the option `heads` in the help text."""
    usual = mechanism.usual_heads
    default = "all" if usual is None else format_numbers(usual)
    return f"heads={default}", "heads", "attention heads on which it acts"
