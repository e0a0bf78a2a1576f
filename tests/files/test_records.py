"""JSON that must be what a dataclass says, and numbers that must be written plainly."""

import copy
import pickle
from dataclasses import dataclass, field
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json
from fairseq_posattn.files.numbers import first_odd, plain_numbers
from fairseq_posattn.files.records import (
    ABSENT,
    Limit,
    Open,
    as_document,
    as_record,
    at_least,
    one_of,
    option,
    plain_name,
)
from fairseq_posattn.scoring.score_document import tables


@dataclass(frozen=True)
class Inner:
    name: str = field(metadata=plain_name())
    kind: str = field(default="a", metadata=one_of("a", "b"))


@dataclass(frozen=True)
class Outer:
    count: int = field(metadata=at_least(1))
    inner: Inner
    share: float = 0.5
    use: bool = True
    note: str | None = None
    parts: list[Inner] = field(default_factory=list)
    rest: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.note == "forbidden":
            raise InputError("the note is forbidden")


LEAST = {"count": 1, "inner": {"name": "x"}}


def record(document) -> Outer:
    return as_record(Outer, document, "file.json", "make it again")


def test_defaults_stand_in_for_what_is_missing():
    assert record(LEAST) == Outer(1, Inner("x"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": "1"}, 'count is "1", expected a whole number'),
        ({"count": True}, "count is true, expected a whole number"),
        ({"count": 0}, "count is 0, expected at least 1"),
        ({"use": "false"}, 'use is "false", expected true or false'),
        ({"share": float("nan")}, "share is NaN, expected a number"),
        ({"note": 1}, "note is 1, expected text"),
        ({"note": "\ud800"}, "note is .*, expected text"),
        ({"note": "forbidden"}, "the note is forbidden"),
        ({"inner": {}}, "inner.name is missing"),
        ({"inner": {"name": "../x"}}, 'inner.name is "../x", expected a name without a folder'),
        ({"inner": {"name": "x", "kind": "c"}}, 'inner.kind is "c", expected a or b'),
        ({"inner": {"name": "x", "new": 1}}, 'inner."new" is not a known key'),
        ({"parts": [{"name": "x"}, 1]}, r"parts\[1\] is 1, expected an object"),
        ({"new": "x" * 999}, '"new" is not a known key'),
        ({"use": "x" * 999}, r'use is "xxx.{0,40}\.\.\., expected'),
    ],
)
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(InputError, match=f"^file.json: .*{message}.*; make it again$"):
        record({**LEAST, **changes})


Small = Annotated[int, Limit(lambda value: value in (1, 2), "1 or 2")]


@dataclass(frozen=True)
class Part(Open):
    """A part."""

    first: Small | None = option("where it begins", key="from")
    sizes: list[Small] = option("its sizes", ABSENT)

    def __post_init__(self):
        if self.sizes == [1, 2]:
            raise InputError("sizes that cannot be")


@dataclass(frozen=True)
class Whole(Open):
    parts: dict[str, Part] = option("parts by their names")
    best: Part = ABSENT


@pytest.mark.parametrize(
    "document",
    [
        {"parts": {}},
        {"parts": {"a": {"from": None}, "b": {"from": 1, "sizes": []}}},
        {"parts": {"a": {"from": 2, "sizes": [2, 1]}}, "best": {"from": 1}},
    ],
)
def test_a_record_is_written_as_it_was_read(document):
    assert as_document(as_record(Whole, document, "", "")) == document


def test_an_open_record_passes_over_other_keys():
    document = {"more": 1, "parts": {"a": {"from": 1, "first": 2}}}
    found = as_record(Whole, document, "", "")
    assert found.best is ABSENT and not found.best
    assert as_document(found) == {"parts": {"a": {"from": 1}}}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"a": {}}, "parts.a.from is missing"),
        ({"a": {"from": 3}}, "parts.a.from is 3, expected 1 or 2"),
        ({"a": {"from": 1, "sizes": [1, 7]}}, r"parts.a.sizes\[1\] is 7, expected 1 or 2"),
        ({"a": {"from": 1, "sizes": [1, 2]}}, "parts.a: sizes that cannot be"),
    ],
)
def test_what_does_not_fit_within_is_named(parts, message):
    with pytest.raises(InputError, match=f"^file.json: {message}; make it again$"):
        as_record(Whole, {"parts": parts}, "file.json", "make it again")


def test_tables_of_records():
    lines = list(tables(Whole))
    assert lines.count("## Part") == 1
    assert "- `parts` (object of [Part](#part)): parts by their names" in lines
    assert "- `from` (null or 1 or 2): where it begins" in lines
    assert "- `sizes`? (list of 1 or 2): its sizes" in lines
    assert "A part." in lines


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", "null", "[" * 100_000, '{"a": ' + "9" * 5000 + "}", "\xff", "{}{}"]
)
def test_json_that_holds_no_object(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"file\.json: the file is damaged \(.*\); make it again"):
        read_json(path, "make it again")


def test_json_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "file.json"
    path.write_text('{"a": 1}', encoding="utf-8-sig")
    assert read_json(path, "") == {"a": 1}


@given(st.lists(st.integers()))
def test_plain_numbers(numbers):
    assert plain_numbers(list(map(str, numbers))) == numbers


ODD = ["01", "+1", "1_0", " 1", "1 ", "", "-0", "-", "x", "1.0", "1e3", "\u0661", "\uff11", "½"]


@pytest.mark.parametrize("odd", [*ODD, "9" * 4301])
def test_odd_numbers(odd):
    assert plain_numbers([odd]) is None
    assert plain_numbers(["7", odd]) is None and plain_numbers(["5000", odd]) is None
    assert first_odd(["7", "5000", odd, "x"]) == 2


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_what_is_absent_stays_absent_in_another_process(again):
    """A worker gets its settings by pickle, and must not write a key that is not there."""
    assert again(ABSENT) is ABSENT
