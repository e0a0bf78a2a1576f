"""--encoder-attention help prints what each mechanism does, its paper and its options."""

import dataclasses
import re

import pytest

from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.core.attention.registry import describe
from fairseq_posattn.core.registration import WIDTH


def entries(text: str) -> dict[str, str]:
    """Return what is printed about each mechanism, as one line."""
    found = re.findall(r"^(\w+)\n((?:    .*\n)+)", f"{text}\n", re.M)
    return {name: " ".join(lines.split()) for name, lines in found}


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_every_mechanism_of_a_side_is_listed_in_a_terminals_width(side):
    text = describe(side)
    wanted = {n for n, m in MECHANISMS.items() if side == "encoder" or m.causal_safe}
    assert entries(text).keys() == wanted
    assert f"--{side}-attention" in text
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_option_is_explained_with_its_type_and_default(name):
    mechanism, entry = MECHANISMS[name], entries(describe())[name]
    assert mechanism.paper and mechanism.paper in entry
    for field in dataclasses.fields(mechanism.Options):
        meaning = field.metadata["help"]
        kinds = {int: "whole number", bool: "true/false", str: "word", float: "number"}
        kind = kinds[type(field.default)]
        default = str(field.default)
        default = default.lower() if kind == "true/false" else default
        assert f"{field.name}={default} {kind} {meaning}" in entry
    assert ("heads=" in entry) == mechanism.accepts_heads
    assert ("dependency trees" in entry) == (mechanism.needs_tree)
    assert ("acts in layer 0 only" in entry) == (mechanism.usual_layers == (0,))


def test_the_first_line_of_a_mechanism_is_a_sentence():
    for name, entry in entries(describe()).items():
        sentence = entry.partition(MECHANISMS[name].paper)[0].strip()
        assert sentence.endswith(".") and len(sentence.split()) >= 5, name
