"""Values of options: what each type may be written as, and that the canonical form reads back."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.core.attention import AttentionShape, AttentionSpecification
from fairseq_posattn.core.option_values import fault_of, read
from fairseq_posattn.core.specification import (
    SpecificationError,
    format_options,
    format_term,
    make_options,
    parse,
)


class Pool(enum.Enum):
    MEAN = 1
    LARGEST = 2
    AVERAGE = 1  # another name of MEAN


@dataclass(frozen=True)
class Everything:
    flag: bool = False
    count: int = 3
    share: float = 1  # an int where the type says float
    word: str = "zeros"
    pool: Pool = Pool.MEAN
    limit: int | None = None
    maybe_share: float | None = 0.5
    maybe_pool: Pool | None = Pool.LARGEST
    sizes: tuple[int, ...] = (3, 5, 7)
    ends: tuple[float, float] = (0.1, 0.9)
    mixed: tuple[int, Pool] = (1, Pool.MEAN)
    gaps: tuple[int | None, ...] = (3, None)
    maybe_sizes: tuple[int, ...] | None = None
    later: tuple[str, ...] = field(default_factory=lambda: ("a", "b"))


CANONICAL = (
    "every(flag=false, count=3, share=1.0, word=zeros, pool=mean, limit=none, maybe_share=0.5, "
    "maybe_pool=largest, sizes=3|5|7, ends=0.1|0.9, "
    "mixed=1|mean, gaps=3|none, maybe_sizes=none, later=a|b)"
)


def canonical(options) -> str:
    return format_term("every", format_options(options))


def options_of(text: str) -> Everything:
    (term,) = parse(text)
    return make_options(term, Everything)


def test_the_canonical_form_of_every_type():
    assert canonical(Everything()) == CANONICAL


numbers = st.floats(allow_nan=False)
words = st.text("abcxyz_-.0123456789", min_size=1).filter(lambda text: text.lower() != "none")
integers = st.integers(-(2**16), 2**16)
values = st.builds(
    Everything,
    flag=st.booleans(),
    count=integers,
    share=numbers,
    word=words,
    pool=st.sampled_from(Pool),
    limit=st.none() | integers,
    maybe_share=st.none() | numbers,
    maybe_pool=st.none() | st.sampled_from(Pool),
    sizes=st.lists(integers).map(tuple),
    ends=st.tuples(numbers, numbers),
    mixed=st.tuples(integers, st.sampled_from(Pool)),
    gaps=st.lists(st.none() | integers).map(tuple),
    maybe_sizes=st.none() | st.lists(integers).map(tuple),
    later=st.lists(words).map(tuple),
)


@given(values)
def test_the_canonical_form_reads_back(options):
    text = canonical(options)
    assert options_of(text) == options
    assert canonical(options_of(text)) == text
    assert len(parse(f"{text} + other(a=b)@0|2 + {text}")) == 3  # also among other terms
    spaced = text.replace("=", " = ").replace("|", " | ").replace(",", " ,")
    assert options_of(spaced) == options


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("flag=TRUE", "flag", True),
        ("pool=Largest", "pool", Pool.LARGEST),
        ("pool=average", "pool", Pool.MEAN),
        ("limit=None", "limit", None),
        ("share=1e-5", "share", 1e-5),
        ("sizes=7|5|5", "sizes", (7, 5, 5)),  # in this order, and a value may stand twice
        ("sizes=|", "sizes", ()),
        ("word=a=b", "word", "a=b"),
    ],
)
def test_what_else_is_read(text, name, value):
    assert getattr(options_of(f"every({text})"), name) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("flag=1", "true or false"),
        ("count=x", "a whole number"),
        ("share=much", "a number"),
        ("pool=sum", "one of mean, largest, average"),
        ("limit=x", "none, or a whole number"),
        ("maybe_pool=x", "none, or one of mean, largest, average"),
        ("sizes=3|x", "values joined by '|', each a whole number"),
        ("ends=1", "2 values joined by '|': a number, a number"),
        ("later=a||b", "values joined by '|', each text"),
    ],
)
def test_an_error_names_option_value_and_what_is_allowed(text, expected):
    with pytest.raises(SpecificationError) as error:
        options_of(f"every({text})")
    assert str(error.value) == f"every({text}): expected {expected}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("count=65537", "count=65537"),
        ("count=-999999999999", "count=-999999999999"),
        ("sizes=3|999999999999", "sizes=[3, 999999999999]"),
        ("count=" + "9" * 4000, "count=" + "9" * 40 + "..."),
    ],
)
def test_whole_numbers_that_would_allocate_absurd_amounts(text, shown):
    with pytest.raises(SpecificationError) as error:
        options_of(f"every({text})")
    expected = "is out of range; use a number within ±65,536"
    assert str(error.value) == f"every: {shown} {expected}"


@pytest.mark.parametrize("numbers", ["0-999999999999", "99999", "0|1-99999"])
def test_absurd_numbers_of_layers_and_heads(numbers):
    """A list of them would fill the memory."""
    for text in (f"relative@{numbers}", f"relative(heads={numbers})"):
        with pytest.raises(
            SpecificationError, match=r"cannot read '.*': expected numbers like 0-2"
        ):
            AttentionSpecification(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "relative(max=999999999999)",
            "max=999999999999 is out of range; use a number within ±65,536",
        ),
        ("convolved_1d(t=60000)", "t=60000 is too large, .*the number of parameters grows with t²"),
        ("direct_absolute(t=60000)", "use a t up to 4,096"),
        ("cnn(layers=60000)", "layers=60000: expected 1 to 32"),
        ("cnn(kernel=59999, separable=false)", "kernel=59999: expected an odd number below 1024"),
    ],
)
def test_mechanisms_of_absurd_sizes(text, message):
    with pytest.raises(SpecificationError, match=message):
        AttentionSpecification(text).check(6, AttentionShape(8, 64, relations=60))


def test_an_option_of_a_class_made_in_a_function():
    """Its annotations are texts whose names nobody can look up; its defaults have types."""

    class Mode(enum.Enum):
        ONE = "one"

    @dataclass(frozen=True)
    class Local:
        mode: Mode = Mode.ONE
        size: int = 3

    (term,) = parse("mine(mode=one, size=4)")
    options = make_options(term, Local)
    assert options == Local(Mode.ONE, 4)
    assert format_options(options) == ["mode=one", "size=4"]


class Twins(enum.Enum):
    A = 1
    a = 2


class Nothing(enum.Enum):
    NONE = 1


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (dict, "dict is not one of bool, int, float, str, an enum.Enum"),
        (dict[str, int], "is not one of bool, int, float"),
        (int | str | None, "is not one of bool, int, float"),
        (tuple, "is not one of bool, int, float"),
        (tuple[tuple[int, ...], ...], "a tuple cannot contain tuples"),
        (tuple[list, ...], "list is not one of bool"),
        (Twins, "members of Twins differ only in case"),
        (Nothing | None, "'none' would mean both None and a member of Nothing"),
        (Nothing, None),
        (tuple[Pool | None, ...] | None, None),
    ],
)
def test_types_that_a_specification_cannot_write(kind, fault):
    found = fault_of(kind)
    assert (found is None) if fault is None else (fault in found)


@pytest.mark.parametrize("odd", ["1_0", "１", "٣", "+1", "01", "nan"])
def test_numbers_are_plain(odd):
    for kind in (int, float, int | None, tuple[int, ...]):
        with pytest.raises(ValueError, match=f"'{re.escape(odd)}' is not a"):
            read(odd, kind)
    with pytest.raises(SpecificationError):
        parse(f"relative@{odd}" if odd != "01" else "relative@x")
