"""This text is what `help` prints for --encoder-attention and its kin."""

from __future__ import annotations

from collections.abc import Mapping

from fairseq_posattn.core.attention.mechanism import Mechanism
from fairseq_posattn.core.help import LEARNS_FROM_TREES, NEEDS_LABELS, NEEDS_TREES, Row, help_text
from fairseq_posattn.core.specification import format_numbers

INTRODUCTION = """\
Mechanisms for --{side}-attention. Several are joined by '+', each with its options and layers:

    window(size=11, heads=0-3)@0-2 + {second}

Layers and heads are counted from 0 and written 3, 0-2, 0|3, 0-2|5 or, for heads, all. An option
that is left out has the value that is shown here. Without '@' a mechanism acts in all layers,
unless its text says otherwise."""


def description(mechanisms: Mapping[str, type[Mechanism]], side: str) -> str:
    """Return what is printed about the mechanisms of a side: encoder, decoder or cross."""
    cross = side == "cross"
    ordered = dict(sorted(mechanisms.items()))
    remarks = {name: remark(mechanism) for name, mechanism in ordered.items()}
    rows = {name: [heads_row(m)] for name, m in ordered.items() if m.accepts_heads}
    introduction = INTRODUCTION.format(side=side, second="gaussian" if cross else "relative")
    others = {n: m.CrossOptions for n, m in ordered.items() if cross and m.CrossOptions}
    return help_text(introduction, ordered, remarks, rows, others)


def remark(mechanism: type[Mechanism]) -> str:
    """Return what a user must know before choosing a mechanism."""
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
    """Return the option that every mechanism has which can be limited to some heads."""
    usual = mechanism.usual_heads
    default = "all" if usual is None else format_numbers(usual)
    return f"heads={default}", "heads", "the attention heads that it acts on"
