"""These functions, (bytes, random generator) -> bytes, are ways to damage a file.

`BYTES` suit every file, `LINES` text, `COLUMNS` text with numbers, `JSON` documents, `OFFSETS`
binary files of whole numbers.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random], bytes]

INSERTED = [
    *(b"\0", b"\r", b"\t", b" ", b"\n", b"\n\n", b"\xff"),
    b"\xed\xa0\x80",  # half of a surrogate pair
    *(text.encode() for text in ("\ufeff", "\u2028", "\u0085", "\u202e", "\u00a0", "\u3000", "🜚")),
]
NUMBERS = [
    *("1_0", "+1", "01", "-1", "0", "1.5", "1e5", "nan", "inf", "-inf", "", " ", "x", "½", "_"),
    "٣",  # an Arabic-Indic digit
    "１",
    "9" * 20,
    "9" * 4301,  # more digits than Python turns into a number
    "65536",
]
LARGE = [-1, 0, 1, 2, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63), -(2**40)]


def place(data: bytes, random: Random) -> int:
    return random.choice([0, len(data), random.randrange(len(data) + 1)])


def stretch(data: bytes, random: Random) -> tuple[int, int]:
    begin = random.randrange(len(data) + 1)
    return begin, min(len(data), begin + random.choice([1, 2, 8, 64, 1000]))


def flip_a_bit(data: bytes, random: Random) -> bytes:
    if not data:
        return b"\x01"
    k = random.randrange(len(data))
    return data[:k] + bytes([data[k] ^ 1 << random.randrange(8)]) + data[k + 1 :]


def truncate(data: bytes, random: Random) -> bytes:
    """At any place, near the end, or to nothing."""
    size = len(data)
    return data[: random.choice([random.randrange(size + 1), max(0, size - 9), size - 1, 0])]


def remove(data: bytes, random: Random) -> bytes:
    begin, end = stretch(data, random)
    return data[:begin] + data[end:]


def repeat(data: bytes, random: Random) -> bytes:
    begin, end = stretch(data, random)
    return data[:end] + data[begin:end] + data[end:]


def overwrite(data: bytes, random: Random) -> bytes:
    begin, end = stretch(data, random)
    return data[:begin] + random.choice([b"\0", b"\xff", b"9"]) * (end - begin) + data[end:]


def insert(data: bytes, random: Random) -> bytes:
    k, noise = place(data, random), random.randbytes(random.choice([1, 4, 100]))
    return data[:k] + random.choice([*INSERTED, noise]) + data[k:]


BYTES = [flip_a_bit, flip_a_bit, truncate, truncate, remove, repeat, overwrite, insert, insert]


def on_lines(change: Callable[[list[bytes], int, Random], None]) -> Mutation:
    """A mutation of the lines, of which one was chosen."""

    def mutate(data: bytes, random: Random) -> bytes:
        lines = data.split(b"\n")
        change(lines, random.randrange(len(lines)), random)
        return b"\n".join(lines)

    mutate.__name__ = change.__name__
    return mutate


@on_lines
def remove_a_line(lines, k, random):
    del lines[k]


@on_lines
def repeat_a_line(lines, k, random):
    lines.insert(k, lines[k])


@on_lines
def swap_lines(lines, k, random):
    other = random.randrange(len(lines))
    lines[k], lines[other] = lines[other], lines[k]


@on_lines
def blank_line(lines, k, random):
    lines.insert(k, random.choice([b"", b" ", b"\t", b"#", b"\r"]))


@on_lines
def long_line(lines, k, random):
    lines[k] += random.choice([b"x", b" x", b"\tx", b"9"]) * 5000


def carriage_returns(data: bytes, random: Random) -> bytes:
    return data.replace(b"\n", random.choice([b"\r\n", b"\r"]))


LINES = [
    *BYTES,
    *(remove_a_line, repeat_a_line, swap_lines, blank_line, long_line, carriage_returns),
]


@on_lines
def swap_columns(lines, k, random):
    columns = re.split(rb"([\t ])", lines[k])
    first, second = random.randrange(len(columns)), random.randrange(len(columns))
    columns[first], columns[second] = columns[second], columns[first]
    lines[k] = b"".join(columns)


@on_lines
def remove_a_column(lines, k, random):
    separator = b"\t" if b"\t" in lines[k] else b" "
    columns = lines[k].split(separator)
    del columns[random.randrange(len(columns))]
    lines[k] = separator.join(columns)


def odd_number(data: bytes, random: Random) -> bytes:
    """Put another spelling in the place of a number."""
    found = [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?", data)]
    begin, end = random.choice(found) if found else (0, 0)
    return data[:begin] + random.choice(NUMBERS).encode() + data[end:]


COLUMNS = [*LINES, swap_columns, remove_a_column, odd_number, odd_number]


def another_offset(data: bytes, random: Random) -> bytes:
    """Another whole number of 4 or 8 bytes at a place where one may stand."""
    size, kind = random.choice([(4, "<I"), (8, "<q")])
    if len(data) < size:
        return data + b"\0"
    k = random.randrange((len(data) - size) // 4 + 1) * 4 + random.choice([0, 0, len(data) % 4])
    k = min(k, len(data) - size)
    value = random.choice([*LARGE, len(data), random.randrange(len(data))])
    number = struct.pack(kind, value & 0xFFFFFFFF if size == 4 else value)
    return data[:k] + number + data[k + size :]


def swap_offsets(data: bytes, random: Random) -> bytes:
    if len(data) < 16:
        return b""
    k = random.randrange(len(data) - 15)
    return data[:k] + data[k + 8 : k + 16] + data[k : k + 8] + data[k + 16 :]


OFFSETS = [*BYTES, another_offset, another_offset, swap_offsets]

VALUES = [
    *("null", "true", "false", "0", "1", "-1", "1.5", "1e308", "1e999", "NaN", "Infinity", '""'),
    *('"false"', '"1"', '"../x"', '"/etc/passwd"', '"a/../../b"', '"\\u0000"', '"\\ud800"'),
    *("[]", "{}", "[[]]", "[null]", '{"a": 1}', '"x"', '"' + "x" * 5000 + '"'),
    *("9" * 30, "9" * 5000, "[" * 100_000 + "]" * 100_000, '{"a":' * 1000 + "1" + "}" * 1000),
]
MARK = "\ue000"  # stands where the value goes in: most cannot be written by the json module


def places_in(document) -> list[tuple]:
    """Return (container, key) of every value in a document."""
    if not isinstance(document, dict | list):
        return []
    items = list(document.items()) if isinstance(document, dict) else list(enumerate(document))
    below = [value for _, value in items if isinstance(value, dict | list)]
    return [(document, key) for key, _ in items] + [p for value in below for p in places_in(value)]


def on_json(change: Callable) -> Mutation:
    """A mutation of a JSON document; a document that is broken or empty already stays so."""

    def mutate(data: bytes, random: Random) -> bytes:
        try:
            document = json.loads(data)
            found = places_in(document)
        except (ValueError, RecursionError):
            return data
        if not found:
            return data
        change(*random.choice(found), random)
        text = json.dumps(document, indent=1)
        return text.replace(f'"{json.dumps(MARK)[1:-1]}"', random.choice(VALUES)).encode()

    mutate.__name__ = change.__name__
    return mutate


@on_json
def another_value(container, key, random):
    container[key] = MARK


@on_json
def missing_key(container, key, random):
    del container[key]


@on_json
def unknown_key(container, key, random):
    if isinstance(container, dict):
        container[random.choice(["unknown", "", str(key).upper(), "__class__"])] = MARK
    else:
        container.insert(key, MARK)


@on_json
def wrapped(container, key, random):
    container[key] = random.choice([[container[key]], {"value": container[key]}])


def another_document(data: bytes, random: Random) -> bytes:
    return random.choice(VALUES).encode()


JSON = [
    *LINES,
    *[another_value, missing_key, unknown_key] * 4,
    *[wrapped, another_document, odd_number] * 2,
]
