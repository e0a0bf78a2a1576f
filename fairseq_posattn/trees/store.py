"""Trees of a corpus in a memory-mapped pair of files: PREFIX.tree.bin and PREFIX.tree.idx.

.bin: the parents of all words (1-based, 0 = root; uint16), then the numbers of their pieces (uint8,
or uint16 where some word has more than 255). Two plain arrays: numpy picks from them ten times as
fast as from three-byte records.
.idx: a header, then for each sentence the number of words before it (int64, one more at the end)
and a checksum of its source pieces (uint32). The header holds fingerprints of .bin and of the
source files that the trees were made for.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fairseq_posattn.trees.checks import TreeError

MAGIC = b"POSATTN TREES 1\n"
WORD = np.dtype([("parent", "<u2"), ("pieces", "<u2")])
LARGEST = np.iinfo(np.uint16).max
HEADER = np.dtype(
    [
        ("magic", f"S{len(MAGIC)}"),
        ("sentences", "<i8"),
        ("pieces_bytes", "<i8"),
        ("trees", "S32"),
        ("source", "S32"),
    ]
)
BLOCK = 1 << 16
BLOCKS = 1024


def bin_path(prefix: str) -> Path:
    return Path(f"{prefix}.tree.bin")


def idx_path(prefix: str) -> Path:
    return Path(f"{prefix}.tree.idx")


def exists(prefix: str) -> bool:
    return bin_path(prefix).exists() and idx_path(prefix).exists()


def fingerprint(paths: Iterable[str | os.PathLike]) -> bytes:
    """A digest of files: of all bytes up to 64 MiB, of 1,024 blocks evenly spread beyond."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        size = os.path.getsize(path)
        digest.update(size.to_bytes(8, "little"))
        with open(path, "rb") as file:
            for start in block_starts(size):
                file.seek(start)
                digest.update(file.read(BLOCK))
    return digest.hexdigest().encode()


def block_starts(size: int) -> list[int]:
    if size <= BLOCK * BLOCKS:
        return list(range(0, size, BLOCK))
    return [int(start) for start in np.linspace(0, size - BLOCK, BLOCKS)]


def checksum(pieces: np.ndarray) -> int:
    """Of the piece numbers of one sentence, whatever integer type they are kept in."""
    return zlib.crc32(np.ascontiguousarray(pieces, dtype="<i4"))


class TreeWriter:
    """Writes both files under temporary names; `finish` makes them appear."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.words = array("q", [0])  # a list of numbers takes four times the memory
        self.checksums = array("I")
        self.most_pieces = 0
        self.temporary = {
            path: Path(f"{path}.partial") for path in (bin_path(prefix), idx_path(prefix))
        }
        self.file = open(self.temporary[bin_path(prefix)], "wb")  # noqa: SIM115

    def add(self, parents: Sequence[int], pieces: Sequence[int], source: np.ndarray) -> None:
        """One sentence: parents 1-based with 0 for the root, pieces of each word, source pieces."""
        if len(parents) > LARGEST or max(pieces, default=0) > LARGEST:
            raise TreeError(
                f"sentence {len(self.checksums) + 1} of {self.prefix}: "
                f"more than {LARGEST:,} words, or pieces in one word"
            )
        record = np.empty(len(parents), WORD)
        record["parent"], record["pieces"] = parents, pieces
        self.most_pieces = max(self.most_pieces, max(pieces, default=0))
        self.file.write(record.tobytes())
        self.words.append(self.words[-1] + len(parents))
        self.checksums.append(checksum(source))

    def finish(self, source_files: Iterable[str | os.PathLike]) -> None:
        self.file.close()
        words = self.temporary[bin_path(self.prefix)]
        pieces_bytes = 1 if self.most_pieces <= np.iinfo(np.uint8).max else 2
        separate(words, pieces_bytes)
        counts = len(self.checksums), pieces_bytes
        header = (MAGIC, *counts, fingerprint([words]), fingerprint(source_files))
        with open(self.temporary[idx_path(self.prefix)], "wb") as file:
            file.write(np.array(header, HEADER).tobytes())
            file.write(np.array(self.words, "<i8").tobytes())
            file.write(np.array(self.checksums, "<u4").tobytes())
        for path, temporary in self.temporary.items():
            os.replace(temporary, path)

    def __enter__(self) -> TreeWriter:
        return self

    def __exit__(self, *_) -> None:
        self.file.close()
        for temporary in self.temporary.values():
            temporary.unlink(missing_ok=True)


def separate(path: Path, pieces_bytes: int) -> None:
    """Rewrite a file of WORD records as two arrays, block by block."""
    apart = Path(f"{path}.apart")
    with open(path, "rb") as file, open(apart, "wb") as out:
        for field, kind in (("parent", "<u2"), ("pieces", f"<u{pieces_bytes}")):
            file.seek(0)
            while block := file.read(BLOCK * WORD.itemsize):
                out.write(np.frombuffer(block, WORD)[field].astype(kind).tobytes())
    os.replace(apart, path)


class TreeFile:
    """Reads a pair of files lazily; can be sent to another process."""

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.open()

    def open(self) -> None:
        path = idx_path(self.prefix)
        raw = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        if raw.size < HEADER.itemsize or bytes(raw[: len(MAGIC)]) != MAGIC:
            raise TreeError(
                f"{path}: not a tree index of this version; run preprocess/binarize.py again"
            )
        header = raw[: HEADER.itemsize].view(HEADER)[0]
        count = int(header["sentences"])
        end = HEADER.itemsize + 8 * (count + 1)
        check_size(path, end + 4 * count)
        # plain arrays on the mapped memory: np.memmap itself is slow to index
        self.starts = np.asarray(raw[HEADER.itemsize : end].view("<i8"))
        self.checksums = np.asarray(raw[end:].view("<u4"))
        self.made_for = bytes(header["source"])
        self.map_words(int(header["pieces_bytes"]), bytes(header["trees"]))

    def map_words(self, pieces_bytes: int, expected: bytes) -> None:
        path = bin_path(self.prefix)
        count = int(self.starts[-1])
        check_size(path, count * (2 + pieces_bytes))
        if fingerprint([path]) != expected:
            raise TreeError(f"{path}: not the file that {idx_path(self.prefix)} was made with")
        raw = np.memmap(path, np.uint8, "r") if count else np.empty(0, np.uint8)
        self.parents = np.asarray(raw[: 2 * count].view("<u2"))
        self.pieces = np.asarray(raw[2 * count :].view(f"<u{pieces_bytes}"))

    def __len__(self) -> int:
        return len(self.checksums)

    def __getstate__(self) -> str:
        return self.prefix

    def __setstate__(self, prefix: str) -> None:
        self.__init__(prefix)

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records of all words of the sentences, one after the other, and words per sentence."""
        starts, ends = self.starts[sentences], self.starts[sentences + 1]
        lengths = ends - starts
        words = ranges(starts, lengths)
        records = np.empty(len(words), WORD)
        records["parent"], records["pieces"] = self.parents[words], self.pieces[words]
        return records, lengths

    def check(self, source_files: Sequence[str | os.PathLike], source: Sequence) -> None:
        """Raise unless the trees belong to the source: arrays that end with end of sentence."""
        names = f"{idx_path(self.prefix)} does not belong to {source_files[0]}"
        remedy = "make the trees again with preprocess/binarize.py"
        if len(self) != len(source):
            differs = first_difference(self, source)
            where = (
                "the shorter is a part of the longer"
                if differs is None
                else f"first at sentence {differs + 1}"
            )
            raise TreeError(
                f"{names}: {len(self)} trees, {len(source)} sentences ({where}); {remedy}"
            )
        if self.made_for == fingerprint(source_files):
            return
        differs = first_difference(self, source)
        if differs is not None:
            raise TreeError(
                f"{names}: the first sentence that differs is number {differs + 1}; {remedy}"
            )


def check_size(path: Path, expected: int) -> None:
    size = path.stat().st_size
    if size != expected:
        raise TreeError(f"{path}: {size} bytes instead of {expected}; the file is torn")


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """starts [5, 2], lengths [2, 3] -> [5, 6, 2, 3, 4]."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def first_difference(trees: TreeFile, source: Sequence) -> int | None:
    """The first sentence whose checksum or number of pieces is not the tree's; None: no such."""
    for k in range(min(len(trees), len(source))):
        pieces = np.asarray(source[k])
        record, _ = trees.read(np.array([k]))
        if trees.checksums[k] != checksum(pieces) or record["pieces"].sum() + 1 != len(pieces):
            return k
    return None
