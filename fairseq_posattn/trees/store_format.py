"""Trees as arrays: the format of the two tree files, and padded batches.

The .bin file contains three arrays: the parent of each word (uint16; words are numbered from 1, and
the parent of the root is 0), the number of pieces of each word (uint8, or uint16 if a word has more
than 255 pieces) and, in version 3, the indices of each word's relation and part of speech (uint8
each, interleaved). Reading from these arrays with numpy is ten times as fast as reading three-byte
records.

The .idx file contains a header, the number of words before each sentence (int64, followed by the
total number), and a checksum of the source pieces of each sentence (uint32). The header contains
fingerprints of the .bin file, of the source files, of the rest of the .idx file and, in version 3,
of the label dictionaries. Trees without labels are written in version 2.
Fingerprints reveal changed files.
"""

import hashlib
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.sentence import Tree

MAGIC = b"POSATTN TREES 2\n"
MAGIC_3 = b"POSATTN TREES 3\n"
WORD = np.dtype([("parent", "<u2"), ("pieces", "<u2")])
LABELLED_WORD = np.dtype([*WORD.descr, ("relation", "u1"), ("tag", "u1")])
STORED_WORD = np.dtype([*WORD.descr, ("labels", "<u2")])  # both labels as one number
LARGEST = np.iinfo(np.uint16).max
HEADER = np.dtype(
    [
        ("magic", f"S{len(MAGIC)}"),
        ("sentences", "<i8"),
        ("pieces_bytes", "<i8"),
        ("trees", "S32"),
        ("source", "S32"),
        ("index", "S32"),
    ]
)
HEADER_3 = np.dtype([*HEADER.descr, ("labels", "S32")])
HEADERS = {MAGIC: HEADER, MAGIC_3: HEADER_3}
BLOCK = 1 << 16
BLOCKS = 1024


def bin_path(prefix: str) -> Path:
    return Path(f"{prefix}.tree.bin")


def idx_path(prefix: str) -> Path:
    return Path(f"{prefix}.tree.idx")


def exists(prefix: str) -> bool:
    return bin_path(prefix).exists() and idx_path(prefix).exists()


def fingerprint(paths: Iterable[str | os.PathLike[str]]) -> bytes:
    """Return a digest of files.

    Files of up to 64 MiB are read completely. From larger files, 1,024 blocks are read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        size = os.path.getsize(path)
        digest.update(size.to_bytes(8, "little"))
        with open(path, "rb") as file:
            for start in block_starts(size):
                file.seek(start)
                digest.update(file.read(BLOCK))
    return digest.hexdigest().encode()


def index_fingerprint(header: NDArray[np.void], body: NDArray[np.uint8]) -> bytes:
    """Return a digest of an index, excluding the header field that stores this digest.

    If the body is larger than 64 MiB, only 1,024 blocks of it are read.
    """
    digest = hashlib.blake2b(digest_size=16)
    blank = header.copy()
    blank["index"] = b""
    digest.update(blank.tobytes())
    digest.update(body.size.to_bytes(8, "little"))
    for start in block_starts(body.size):
        digest.update(body[start : start + BLOCK].data)
    return digest.hexdigest().encode()


def block_starts(size: int) -> list[int]:
    """Return the offsets of the blocks that are read to fingerprint a file of this size."""
    if size <= BLOCK * BLOCKS:
        return list(range(0, size, BLOCK))
    return [int(start) for start in np.linspace(0, size - BLOCK, BLOCKS)]


def checksum(pieces: NDArray[np.integer[Any]]) -> int:
    """Return a checksum of the piece indices of a sentence, independent of their integer type."""
    return zlib.crc32(np.ascontiguousarray(pieces, dtype="<i4").data)


def damaged(path: Path) -> TreeError:
    return TreeError(f"{path}: the file is damaged; create the trees again with posattn binarize")


def check_size(path: Path, expected: int) -> None:
    size = path.stat().st_size
    if size != expected:
        raise TreeError(
            f"{path}: the file has {size} bytes instead of {expected}; "
            "create the trees again with posattn binarize"
        )


def grows(starts: NDArray[np.int64]) -> bool:
    """Return whether the offsets never decrease.

    They are compared block by block to save memory.
    """
    return all(
        (np.diff(starts[begin : begin + BLOCK + 1]) >= 0).all()
        for begin in range(0, len(starts) - 1, BLOCK)
    )


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate integer ranges: starts [5, 2] and lengths [2, 3] give 5, 6, 2, 3, 4."""
    ends = np.cumsum(lengths)
    count = int(ends[-1]) if len(ends) else 0
    return np.arange(count) + np.repeat(starts - ends + lengths, lengths)


Numbers = tuple[Sequence[int], Sequence[int]]  # indices of relations and of parts of speech


def pack(
    trees: Sequence[tuple[Sequence[int], Sequence[int]] | Tree],
    labels: Sequence[Numbers] | None = None,
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Concatenate the trees of several sentences into one array with one record per word.

    Return this array and the number of words in each sentence.

    trees: for each sentence, the parents of its words and the number of pieces of each word.
    labels: for each sentence, the indices of its relations and of its parts of speech, or None if
        the trees have no labels.
    """
    lengths = np.array([len(tree[0]) for tree in trees], np.int64)
    records = np.empty(lengths.sum(), WORD if labels is None else LABELLED_WORD)
    records["parent"] = [parent for tree in trees for parent in tree[0]]
    records["pieces"] = [count for tree in trees for count in tree[1]]
    if labels is not None:
        records["relation"] = [number for relations, _ in labels for number in relations]
        records["tag"] = [number for _, tags in labels for number in tags]
    return records, lengths


def collate(
    records: NDArray[np.void], lengths: NDArray[np.int64], pieces: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Pad the trees of a batch with zeros and return them as one array.

    The array has the shape (2, sentences, words) and contains the parent and the number of pieces
    of each word. With labels, the shape is (4, sentences, words), and the array also contains the
    indices of the relation and the part of speech of each word. Raise a TreeError if a sentence has
    more pieces than its tree.

    records, lengths: the result of `pack`.
    pieces: number of pieces in each sentence, without the end-of-sentence symbol. A truncated
        sentence has fewer pieces than its tree, because trees are never truncated.
    """
    width = max(int(lengths.max(initial=0)), 1)
    fields = records.dtype.names or ()
    padded = np.zeros((len(fields), len(lengths), width), np.int32)
    place = np.flatnonzero(np.arange(width) < lengths[:, None])
    for row, field in zip(padded.reshape(len(fields), -1), fields, strict=True):
        row[place] = records[field]
    missing = np.flatnonzero(padded[1].sum(axis=1) < pieces)
    if len(missing):
        raise TreeError(
            f"sentence {missing[0] + 1} of a batch has {pieces[missing[0]]} pieces, but its tree "
            f"has only {padded[1, missing[0]].sum()}; run posattn binarize again"
        )
    return padded
