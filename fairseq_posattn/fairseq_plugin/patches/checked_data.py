"""Fix how fairseq loads data: check files, end worker processes, and support numpy 2.

Without checks, an incomplete or damaged file causes a traceback that does not contain the
file name, or silently results in wrong words. All fairseq tasks open their data with the two
functions in PATCHES.
"""

import json
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, data_file_path, index_file_path

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches.patch import Patch, stand_in
from fairseq_posattn.files.files import read_json, read_lines

MAGIC = MMapIndexedDataset.Index._HDR_MAGIC
HEADER = struct.Struct("<9sQBQ")  # magic, version, dtype code, number of sentences
KINDS = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
BLOCK = 1 << 20
CHECKSUMS = "checksums.json"
AGAIN = "binarise or copy the data again"
SYMBOL = re.compile(r"(?P<symbol>.+) (0|[1-9][0-9]{0,17})(?P<flag> #fairseq:overwrite)?")


def checked_dataset(make_dataset, path, impl, fix_lua_indexing=False, dictionary=None):
    """Wrapper for indexed_dataset.make_dataset that checks binary data before they are opened."""
    if impl in ("mmap", "cached", "lazy") and MMapIndexedDataset.exists(path):
        check_dataset(path, impl, dictionary)
    return make_dataset(path, impl, fix_lua_indexing, dictionary)


def check_dataset(prefix: str, impl: str, dictionary: Dictionary | None) -> None:
    """Raise an InputError if the files cannot have been written by fairseq."""
    index = index_file_path(prefix)
    with open(index, "rb") as file:
        start = file.read(HEADER.size)
    if impl != "mmap":  # fairseq would read any other file as its oldest format
        if not start.startswith(indexed_dataset.IndexedDataset._HDR_MAGIC):
            raise InputError(f"{index}: the file is not the index of a binarised data set; {AGAIN}")
        return
    if len(start) < HEADER.size:
        raise torn(index, HEADER.size)
    magic, version, code, sentences = HEADER.unpack(start)
    if magic != MAGIC or version != 1 or code not in indexed_dataset._code_to_dtype:
        raise InputError(f"{index}: the file is not the index of a binarised data set; {AGAIN}")
    if not sentences:
        raise InputError(
            f"{index}: the data contain no sentences; make them again from a text that is not empty"
        )
    check_size(index, HEADER.size + 12 * sentences)
    size = indexed_dataset._code_to_dtype[code]().itemsize
    check_size(data_file_path(prefix), check_offsets(index, sentences, size))
    check_content(data_file_path(prefix), code, dictionary)


def check_size(path: str, expected: int) -> None:
    if os.path.getsize(path) != expected:
        raise torn(path, expected)


def torn(path: str, expected: int) -> InputError:
    return InputError(
        f"{path}: the file has {os.path.getsize(path)} bytes instead of {expected}, so it is "
        f"incomplete or damaged; {AGAIN}"
    )


def check_offsets(index: str, sentences: int, size: int) -> int:
    """Check that each sentence begins where the previous one ends; return the total in bytes."""
    raw = np.memmap(index, np.uint8, "r")
    middle = HEADER.size + 4 * sentences
    lengths, offsets = raw[HEADER.size : middle].view("<i4"), raw[middle:].view("<i8")
    end = 0
    for begin in range(0, sentences, BLOCK):
        of_block = lengths[begin : begin + BLOCK].astype(np.int64)
        ends = end + size * np.cumsum(of_block)
        starts = ends - size * of_block
        if of_block.min() < 0 or not np.array_equal(starts, offsets[begin : begin + BLOCK]):
            raise InputError(f"{index}: the lengths and offsets of the sentences disagree; {AGAIN}")
        end = int(ends[-1])
    return end


def check_content(path: str, code: int, dictionary: Dictionary | None) -> None:
    """Raise an InputError if an index is not in the dictionary, or if the checksum has changed.

    The check costs little, because fairseq reads the whole file anyway. For alignments,
    `dictionary` is None.
    """
    kind = KINDS.get(code)
    if dictionary is not None and kind is None:
        raise InputError(f"{path}: the data are not integers, so they cannot be text; {AGAIN}")
    known = checksums(Path(path).parent).get(Path(path).name)
    if dictionary is None and known is None:
        return
    found = 0
    for block in blocks(path, kind or "u1"):
        found = zlib.crc32(block.data, found)
        if dictionary is not None:
            check_numbers(path, block, dictionary)
    if known is not None and found != known:
        raise InputError(
            f"{path}: the checksum differs from the one in {CHECKSUMS}, so the file was changed "
            f"after it was made; {AGAIN}, or remove {CHECKSUMS} if the change was intended"
        )


def check_numbers(path: str, numbers: np.ndarray, dictionary: Dictionary) -> None:
    least, most = int(numbers.min()), int(numbers.max())
    if least < 0 or most >= len(dictionary):
        named = getattr(dictionary, "path", "its dictionary")
        raise InputError(
            f"{path}: the data contain the index {least if least < 0 else most}, but {named} has "
            f"{len(dictionary)} symbols, so the two do not belong together; {AGAIN}"
        )


def checksums(folder: Path) -> dict[str, int]:
    """Return the stored checksums of the binary files in a folder.

    The result is empty for data from fairseq-preprocess or from an earlier version of this package.
    """
    path = folder / CHECKSUMS
    return dict(read_json(path, AGAIN)) if path.exists() else {}


def write_checksums(folder: Path) -> None:
    """Store the checksums of new data, except for tree files, which contain their own."""
    found = {}
    for path in sorted(folder.glob("*.bin")):
        if not path.name.endswith(".tree.bin"):
            found[path.name] = 0
            for block in blocks(str(path), "u1"):
                found[path.name] = zlib.crc32(block.data, found[path.name])
    text = json.dumps(found, indent=1) + "\n"
    (folder / CHECKSUMS).write_text(text, encoding="utf-8")


def blocks(path: str, kind: str) -> Iterator[np.ndarray]:
    """Yield the numbers in a file block by block, to save memory."""
    if os.path.getsize(path):
        numbers = np.memmap(path, kind, "r")
        for begin in range(0, len(numbers), BLOCK):
            yield numbers[begin : begin + BLOCK]


def checked_dictionary(add_from_file, self, f):
    """Wrapper for Dictionary.add_from_file that raises an InputError for the first damaged line."""
    if not isinstance(f, str) or not Path(f).is_file():
        return add_from_file(self, f)
    self.path = f  # for error messages
    lines, known = list(read_lines(f)), set(self.symbols)
    for number, line in enumerate(lines, start=1):
        match = SYMBOL.fullmatch(line)
        if match is None:
            raise InputError(
                f"{f}:{number}: expected a symbol, a space and a number, found '{line}'; {AGAIN}"
            )
        if match["symbol"] in known and not match["flag"]:
            raise InputError(
                f"{f}:{number}: '{match['symbol']}' is listed twice or is a special symbol; {AGAIN}"
            )
        known.add(match["symbol"])
    return add_from_file(self, SimpleNamespace(readlines=lambda: lines))  # acts as an open file


def ending_workers(run, self) -> None:
    """Wrapper for BackgroundConsumer.run that ends the worker processes after an epoch is loaded.

    fairseq starts new workers for each epoch and each validation, and keeps the old ones until
    Python garbage-collects them. torch then waits five seconds for each worker.
    """
    run(self)
    if getattr(self._source, "_iterator", None) is not None:  # a torch DataLoader
        self._source._iterator = None


def with_compat(module: ModuleType) -> ModuleType:
    """Return a replacement for the numpy module that provides `compat.long`.

    With --sample-break-mode eos, two of fairseq's datasets use this attribute, which numpy 2 lacks.
    The numpy module itself is not changed.
    """
    if hasattr(module, "compat"):
        return module
    return stand_in(module, compat=SimpleNamespace(long=int))


PATCHES = [
    Patch(indexed_dataset, "make_dataset", checked_dataset),
    Patch(Dictionary, "add_from_file", checked_dictionary),
]


def install() -> None:
    """Enable the checks in a program that does not load the plug-in."""
    for patch in PATCHES:
        patch.install()
