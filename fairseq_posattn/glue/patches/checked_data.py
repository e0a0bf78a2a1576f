"""Binary data and dictionaries are checked when fairseq opens them.

fairseq itself trusts them: a torn or damaged file ends in a traceback without its name, or in other
words than were written. All its tasks open them through the two functions that are wrapped here.
"""

from __future__ import annotations

import functools
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, data_file_path, index_file_path

from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.patches import patch
from fairseq_posattn.glue.patches.patch import Patch
from fairseq_posattn.io.files import read_lines

MAGIC = MMapIndexedDataset.Index._HDR_MAGIC
HEADER = struct.Struct("<9sQBQ")  # magic, version, type of the numbers, sentences
KINDS = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
BLOCK = 1 << 20
AGAIN = "make the data again, or copy them again"
SYMBOL = re.compile(r"(?P<symbol>.+) (0|[1-9][0-9]{0,17})(?P<flag> #fairseq:overwrite)?")


def checked_dataset(make_dataset):
    """Open binary data after a look at them."""

    @functools.wraps(make_dataset)
    def make_checked(path, impl, fix_lua_indexing=False, dictionary=None):
        if impl in ("mmap", "cached", "lazy") and MMapIndexedDataset.exists(path):
            check_dataset(path, impl, dictionary)
        return make_dataset(path, impl, fix_lua_indexing, dictionary)

    return make_checked


def check_dataset(prefix: str, impl: str, dictionary: Dictionary | None) -> None:
    """Refuse files that cannot be what fairseq wrote."""
    index = index_file_path(prefix)
    with open(index, "rb") as file:
        start = file.read(HEADER.size)
    if impl != "mmap":  # the format of long ago, which fairseq takes any other file for
        if not start.startswith(indexed_dataset.IndexedDataset._HDR_MAGIC):
            raise InputError(f"{index}: not an index of binary data; {AGAIN}")
        return
    if len(start) < HEADER.size:
        raise torn(index, HEADER.size)
    magic, version, code, sentences = HEADER.unpack(start)
    if magic != MAGIC or version != 1 or code not in indexed_dataset._code_to_dtype:
        raise InputError(f"{index}: not an index of binary data; {AGAIN}")
    if not sentences:
        raise InputError(f"{index}: no sentences; make the data again from text that has some")
    check_size(index, HEADER.size + 12 * sentences)
    size = indexed_dataset._code_to_dtype[code]().itemsize
    check_size(data_file_path(prefix), check_offsets(index, sentences, size))
    if dictionary is not None:
        check_numbers(prefix, code, dictionary)


def check_size(path: str, expected: int) -> None:
    if os.path.getsize(path) != expected:
        raise torn(path, expected)


def torn(path: str, expected: int) -> InputError:
    return InputError(
        f"{path}: {os.path.getsize(path)} bytes instead of {expected}: torn or damaged; {AGAIN}"
    )


def check_offsets(index: str, sentences: int, size: int) -> int:
    """The bytes of all sentences; each must begin where the one before it ends."""
    raw = np.memmap(index, np.uint8, "r")
    middle = HEADER.size + 4 * sentences
    lengths, offsets = raw[HEADER.size : middle].view("<i4"), raw[middle:].view("<i8")
    end = 0
    for begin in range(0, sentences, BLOCK):
        of_block = lengths[begin : begin + BLOCK].astype(np.int64)
        ends = end + size * np.cumsum(of_block)
        starts = ends - size * of_block
        if of_block.min() < 0 or not np.array_equal(starts, offsets[begin : begin + BLOCK]):
            raise InputError(f"{index}: lengths and offsets of the sentences disagree; {AGAIN}")
        end = int(ends[-1])
    return end


def check_numbers(prefix: str, code: int, dictionary: Dictionary) -> None:
    """Each number must be that of a symbol; fairseq has read the file whole by now, or will."""
    path = data_file_path(prefix)
    if code not in KINDS:
        raise InputError(f"{index_file_path(prefix)}: not whole numbers, so not text; {AGAIN}")
    for block in blocks(path, KINDS[code]):
        least, most = int(block.min()), int(block.max())
        if least < 0 or most >= len(dictionary):
            found = least if least < 0 else most
            named = getattr(dictionary, "path", "its dictionary")
            raise InputError(
                f"{path}: holds the number {found}, but {named} has {len(dictionary)} symbols; "
                f"they do not belong together: {AGAIN}"
            )


def blocks(path: str, kind: str) -> Iterator[np.ndarray]:
    if os.path.getsize(path):
        numbers = np.memmap(path, kind, "r")
        for begin in range(0, len(numbers), BLOCK):
            yield numbers[begin : begin + BLOCK]


def checked_dictionary(add_from_file):
    """Read the file of a dictionary after a look at its lines."""

    @functools.wraps(add_from_file)
    def add_checked(self, f):
        if not isinstance(f, str) or not Path(f).is_file():
            return add_from_file(self, f)
        self.path = f  # for messages
        return add_from_file(self, SymbolLines(f, self))

    return add_checked


class SymbolLines:
    """The lines of a dictionary, in place of the open file that fairseq reads them from."""

    def __init__(self, path: str, dictionary: Dictionary):
        self.path, self.dictionary = path, dictionary

    def readlines(self) -> list[str]:
        lines = list(read_lines(self.path))
        known = set(self.dictionary.symbols)
        for number, line in enumerate(lines, start=1):
            where = f"{self.path}:{number}"
            match = SYMBOL.fullmatch(line)
            if match is None:
                raise InputError(
                    f"{where}: expected a symbol, a space and a number, found '{line}'"
                )
            if match["symbol"] in known and not match["flag"]:
                raise InputError(f"{where}: the symbol '{match['symbol']}' is there twice; {AGAIN}")
            known.add(match["symbol"])
        return lines


PATCHES = [
    Patch(
        indexed_dataset,
        "make_dataset",
        checked_dataset,
        "Torn or damaged binary data end in a traceback, or in other words than were written.",
        "0.12.2, fairseq-fixed 0.12.3.1",
        "fairseq checks sizes and offsets when it opens data",
    ),
    Patch(
        Dictionary,
        "add_from_file",
        checked_dictionary,
        "A damaged dictionary ends in a traceback that does not name its line.",
        "0.12.2, fairseq-fixed 0.12.3.1",
        "fairseq names file and line",
    ),
]


def install() -> None:
    """Check data in a program that does not load the plug-in."""
    patch.install(PATCHES)
