"""The grammar: what it reads, its canonical form, and the message for what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.core.attention import AttentionShape, AttentionSpecification
from fairseq_posattn.core.positions.registry import PositionSpecification
from fairseq_posattn.core.specification import SpecificationError, format_numbers, parse_numbers

FULL = "max=16, shared_heads=true"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("relative", f"relative({FULL})"),
        (" relative ( max = 4 )@ 0-2 ", "relative(max=4, shared_heads=true)@0-2"),
        ("relative@0|1|2|5", f"relative({FULL})@0-2|5"),
        ("relative(heads=3|0-1)", f"relative({FULL}, heads=0-1|3)"),
        ("relative + tree_relative", f"relative({FULL}) + tree_relative({FULL})"),
        ("window(across=3)@0-2", "window(size=11, across=3)@0-2"),
        ("relative(heads=all)", f"relative({FULL})"),
        ("direct_relative", "direct_relative(t=0, init=zeros, symmetric=false)@0"),  # as published
        ("parent_scaled", "parent_scaled(heads=0-4)@0"),
        ("parent_scaled(heads=all)@1", "parent_scaled(heads=all)@1"),
    ],
)
def test_attention_in_canonical_form(text, canonical):
    assert str(AttentionSpecification(text)) == canonical
    assert str(AttentionSpecification(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "windoww",
            "no attention mechanism is called 'windoww'; the nearest of 29 names are window, ",
        ),
        ("relative(size=3)", "'relative' has no option 'size'; its options: max, shared_heads"),
        ("relative(max=0)", "max=0: expected at least 1"),
        ("relative(max=3, max=4)", "'max' occurs twice"),
        ("relative(max)", "cannot read 'max' in 'relative(max)': expected option=value"),
        ("relative max=3", "cannot read 'relative max=3'"),
        ("relative +", "cannot read ''"),
        ("relative@2-1", "expected numbers like 0-2 or 0|3"),
        ("relative@6", "relative@6: the model has 6 layers, 0 to 5"),
        ("relative(heads=0|8)", "the model has 8 attention heads, 0 to 7"),
        ("relative + relative(max=3)@2", "'relative' occurs twice in layer 2"),
    ],
)
def test_refused_with_the_reason(text, message):
    with pytest.raises(SpecificationError) as error:
        AttentionSpecification(text).check(6, AttentionShape(heads=8, head_width=8))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "canonical", "needs_tree"),
    [
        ("none", "none", False),
        ("sequence", "sequence", False),
        ("tree_depth", "tree_depth", True),
        ("sequence + tree_depth", "sequence + tree_depth(fuse=nonlinear)", True),
        ("tree_depth(fuse=add) + sequence", "sequence + tree_depth(fuse=add)", True),
    ],
)
def test_positions_in_canonical_form(text, canonical, needs_tree):
    specification = PositionSpecification(text)
    assert (str(specification), specification.needs_tree) == (canonical, needs_tree)
    assert str(PositionSpecification(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected none, sequence, tree_depth"),
        (
            "depth",
            "no position is called 'depth'; choose from none, relation_embedding, ",
        ),
        ("sequence + sequence", "expected none, sequence, tree_depth"),
        ("tree_depth(fuse=add)", "fuse requires 'sequence'; add it"),
        ("sequence + tree_depth(fuse=mul)", "fuse=mul: expected add or nonlinear"),
        ("sequence@0", "remove '@'"),
    ],
)
def test_positions_refused_with_the_reason(text, message):
    with pytest.raises(SpecificationError) as error:
        PositionSpecification(text)
    assert message in str(error.value)


@given(st.sets(st.integers(0, 30), min_size=1))
def test_numbers_survive_the_round_trip(numbers):
    numbers = tuple(sorted(numbers))
    assert parse_numbers(format_numbers(numbers)) == numbers
