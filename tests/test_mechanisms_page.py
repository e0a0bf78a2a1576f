"""docs/mechanisms.md shows every mechanism with its options and defaults, picture and command."""

import dataclasses
import re
import shlex

import pytest
import yaml
from PIL import Image

from fairseq_posattn.core.attention import MECHANISMS, AttentionSpecification, CrossSpecification
from fairseq_posattn.core.attention.registry import safe_across
from fairseq_posattn.core.positions.registry import POSITIONS, PositionSpecification
from fairseq_posattn.core.specification import format_numbers, format_options
from support.commands import PLUGIN, ROOT

PAGE = ROOT / "docs/mechanisms.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = {
    part.splitlines()[0].strip("`"): part for part in re.split(r"^#{2,3} ", TEXT, flags=re.M)[1:]
}
ALSO = {"window(across=3)": "window"}  # a section of its own for a setting
NAMES = [*MECHANISMS, *ALSO]


def options_on_page(section):
    """The options of a section: name -> default, as written, or those of another section."""
    same = re.search(r"^- \*\*Options:\*\* those of \[`(\w+)`\]", section, re.M)
    listed = SECTIONS[same[1]] if same else section
    return dict(re.findall(r"^  - `(\w+)=([^`]*)`: \S", listed, re.M))


def options_of(mechanism):
    """The options as the specification writes them, heads included where they are not all."""
    found = dict(pair.split("=") for pair in format_options(mechanism.Options()))
    if mechanism.accepts_heads and mechanism.usual_heads is not None:
        found["heads"] = format_numbers(mechanism.usual_heads)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_options_and_defaults_are_those_of_the_code(name):
    mechanism = MECHANISMS[ALSO.get(name, name)]
    assert options_on_page(SECTIONS[name]) == options_of(mechanism)


def test_no_section_is_about_something_else():
    groups = {title for title in SECTIONS if " " in title and "`" not in title}
    assert set(SECTIONS) - groups == {*NAMES, *POSITIONS}


@pytest.mark.parametrize("name", NAMES)
def test_where_it_acts_is_what_the_code_says(name):
    mechanism = MECHANISMS[ALSO.get(name, name)]
    acts = re.search(r"^- \*\*Layers:\*\* (.*)$", SECTIONS[name], re.M)[1]
    layers = mechanism.usual_layers
    assert acts.startswith("all layers" if layers is None else f"layer {format_numbers(layers)}")
    assert ("in the decoder" in acts) == mechanism.causal_safe
    assert ("in cross-attention" in acts) == mechanism.cross_safe
    assert ("needs trees" in acts) == mechanism.needs_tree
    assert ("on all heads" in acts) == (not mechanism.accepts_heads)


def test_the_table_of_cross_attention_lists_all_with_their_defaults():
    table = SECTIONS["Attention to the source"]
    written = re.findall(r"^\| `([a-z_0-9]+(?:\([^`]*\))?)` \| .+ \| .+ \|$", table, re.M)
    assert [str(CrossSpecification(text)) for text in written] == written
    names = [use.mechanism.name for text in written for use in CrossSpecification(text).uses]
    assert sorted(names) == list(safe_across())


@pytest.mark.parametrize("name", NAMES)
def test_a_section_has_its_facts_a_specification_and_a_picture(name):
    section, mechanism = SECTIONS[name], MECHANISMS[ALSO.get(name, name)]
    facts = dict(re.findall(r"^- \*\*(Equation|Paper|Layers|Adds):\*\* (.+)$", section, re.M))
    assert len(facts) == 4 and "](http" in facts["Paper"]
    source = re.search(r" \(\[code\]\((.+?)\)\)$", facts["Paper"])[1]
    assert f'name = "{mechanism.name}"' in (PAGE.parent / source).read_text()
    written = re.search(r"^- \*\*Write:\*\* `(.+)`$", section, re.M)[1]
    assert mechanism in [use.mechanism for use in AttentionSpecification(written).uses]
    [(alt, picture)] = re.findall(r"^!\[(.+)\]\((pictures/\w+\.png)\)$", section, re.M)
    command = re.search(rf"^`posattn show (.+)`:\n\n!.+\({picture}\)$", section, re.M)[1]
    drawn = AttentionSpecification(shlex.split(command)[0])
    assert [use.mechanism for use in drawn.uses] == [mechanism] and len(alt) > 20
    with Image.open(PAGE.parent / picture) as image:
        shown = AttentionSpecification(image.info["Title"])
        assert str(shown) == str(drawn)  # the picture is that of the command


def test_pictures_are_small_and_all_are_used():
    sizes = {path.name: path.stat().st_size for path in (PAGE.parent / "pictures").iterdir()}
    assert max(sizes.values()) < 60_000 and sum(sizes.values()) < 1_300_000
    assert set(sizes) == set(re.findall(r"\(pictures/([\w.]+)\)", TEXT))


@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name):
    found = {
        field.name: str(field.default) for field in dataclasses.fields(POSITIONS[name].Options)
    }
    assert options_on_page(SECTIONS[name]) == found


def test_the_models_of_the_papers_are_the_presets():
    tables = SECTIONS["The models of the papers"]
    found = {}
    for line in re.findall(r"^\| (.+`posattn_\w+`) \|$", tables, re.M):
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.split("|")]
        presets, attention = cells[-1], cells[-2] or [""]
        [positions] = cells[1] if len(cells) == 4 else ["sequence"]
        for preset, specification in zip(presets, attention, strict=True):
            found[preset] = (
                str(PositionSpecification(positions)),
                str(AttentionSpecification(specification)),
            )
    assert found == {f"posattn_{path.stem}": specified(path) for path in PRESETS}


MODELS = (PLUGIN / "fairseq_plugin/config/model").glob("*.yaml")
PRESETS = [path for path in MODELS if path.stem != "transformer"]  # the stock model


def specified(path):
    preset = yaml.safe_load(path.read_text())
    positions = PositionSpecification(preset.get("encoder_positions", "sequence"))
    return str(positions), str(AttentionSpecification(preset.get("encoder_attention", "")))
