"""Store the trees of a corpus in two memory-mapped files, PREFIX.tree.bin and PREFIX.tree.idx.

store_format.py documents the format of these files.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fairseq_posattn.files.atomic import replaced_together
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store_format import (
    BLOCK,
    HEADER,
    HEADER_3,
    HEADERS,
    LABELLED_WORD,
    LARGEST,
    MAGIC,
    MAGIC_3,
    STORED_WORD,
    WORD,
    bin_path,
    check_size,
    checksum,
    damaged,
    fingerprint,
    grows,
    idx_path,
    index_fingerprint,
    ranges,
)

Integers = NDArray[np.integer[Any]]


class TreeWriter:
    """Writes the two tree files atomically; call `finish` after adding the last tree.

        with TreeWriter("data/train.de-en") as trees:
            trees.add([2, 0], [1, 2], source)  # two words, three pieces
            trees.finish(source_files)

    labels: fingerprint of the label dictionaries, or None if the trees have no labels.
    """

    def __init__(self, prefix: str, labels: bytes | None = None):
        self.prefix = prefix
        self.labels = labels
        self.kind = WORD if labels is None else LABELLED_WORD
        self.words = array("q", [0])  # a list would need four times the memory
        self.checksums = array("I")
        self.most_pieces = 0
        self.finished = False

    def __enter__(self) -> TreeWriter:
        with contextlib.ExitStack() as opened:
            paths = [bin_path(self.prefix), idx_path(self.prefix)]
            self.bin, self.idx = opened.enter_context(replaced_together(paths))
            folder = self.bin.parent
            self.records = opened.enter_context(tempfile.TemporaryFile(dir=folder))
            self.opened = opened.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and not self.finished:
            kind, error = TreeError, TreeError(f"{self.prefix}: call finish() after the last tree")
        self.opened.__exit__(kind, error, traceback)

    def add(
        self,
        parents: Sequence[int],
        pieces: Sequence[int],
        source: Integers,
        labels: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        """Add the tree of a sentence.

        parents: the parent of each word. Words are numbered from 1, and the parent of the root is
            0.
        pieces: the number of pieces of each word.
        source: the dictionary indices of the pieces and of the end-of-sentence symbol.
        labels: the indices of the relations and of the parts of speech, if the trees have labels.
        """
        if len(parents) > LARGEST or max(pieces, default=0) > LARGEST:
            raise TreeError(
                f"sentence {len(self.checksums) + 1} of {self.prefix} has more than {LARGEST:,} "
                f"words, or a word with more than {LARGEST:,} pieces; remove it"
            )
        record = np.empty(len(parents), self.kind)
        record["parent"], record["pieces"] = parents, pieces
        if labels is not None:
            record["relation"], record["tag"] = labels
        self.most_pieces = max(self.most_pieces, max(pieces, default=0))
        self.records.write(record.tobytes())
        self.words.append(self.words[-1] + len(parents))
        self.checksums.append(checksum(source))

    def add_file(self, trees: TreeFile) -> None:
        """Append all trees of another file; either both files must have labels, or neither."""
        for begin in range(0, len(trees), BLOCK):
            sentences = np.arange(begin, min(begin + BLOCK, len(trees)))
            records, lengths = trees.read(sentences)
            self.records.write(records.astype(self.kind).tobytes())
            self.most_pieces = max(self.most_pieces, int(records["pieces"].max(initial=0)))
            self.words.extend((self.words[-1] + np.cumsum(lengths)).tolist())
        self.checksums.extend(trees.checksums.tolist())

    def finish(self, source_files: Iterable[str | os.PathLike[str]]) -> None:
        """Write the trees, and the fingerprint of the source files to which they belong."""
        pieces_bytes = 1 if self.most_pieces <= np.iinfo(np.uint8).max else 2
        separate(self.records, self.bin, WORD if self.labels is None else STORED_WORD, pieces_bytes)
        counts = len(self.checksums), pieces_bytes
        fingerprints = fingerprint([self.bin]), fingerprint(source_files)
        if self.labels is None:
            header = np.array((MAGIC, *counts, *fingerprints, b""), HEADER)
        else:
            header = np.array((MAGIC_3, *counts, *fingerprints, b"", self.labels), HEADER_3)
        body = np.array(self.words, "<i8").tobytes() + np.array(self.checksums, "<u4").tobytes()
        header["index"] = index_fingerprint(header, np.frombuffer(body, np.uint8))
        self.idx.write_bytes(header.tobytes() + body)
        self.finished = True


def separate(records: BinaryIO, path: Path, kind: np.dtype[np.void], pieces_bytes: int) -> None:
    """Convert a file of records to one array per field, block by block."""
    with open(path, "wb") as out:
        for field in kind.names or ():
            stored = f"<u{pieces_bytes}" if field == "pieces" else kind[field]
            records.seek(0)
            while block := records.read(BLOCK * kind.itemsize):
                out.write(np.frombuffer(block, kind)[field].astype(stored).tobytes())


class TreeFile:
    """Reads trees on demand from memory-mapped files; instances can be pickled.

        records, lengths = TreeFile("data/train.de-en").read(np.array([0, 5]))

    with_labels: whether `read` also returns the labels, which the file must then contain.
    """

    def __init__(self, prefix: str, with_labels: bool = False):
        self.prefix = prefix
        self.with_labels = with_labels
        self.new_labels: NDArray[np.uint16] | None = None  # replacement for each pair of labels
        self.open()

    def open(self) -> None:
        """Map both files into memory; raise a TreeError if one of them is damaged."""
        path = idx_path(self.prefix)
        raw = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        kind = HEADERS.get(bytes(raw[: len(MAGIC)]))
        if kind is None or raw.size < kind.itemsize:
            raise TreeError(f"{path}: this is not an index of trees; run posattn binarize again")
        header = np.array(raw[: kind.itemsize].view(kind)[0])
        count = int(header["sentences"])
        end = kind.itemsize + 8 * (count + 1)
        if count < 0 or header["pieces_bytes"] not in (1, 2):
            raise damaged(path)
        check_size(path, end + 4 * count)
        if index_fingerprint(header, raw[kind.itemsize :]) != header["index"]:
            raise damaged(path)
        # plain arrays on the mapped memory, because indexing np.memmap is slow
        self.starts = np.asarray(raw[kind.itemsize : end].view("<i8"))
        self.checksums = np.asarray(raw[end:].view("<u4"))
        if self.starts[0] != 0 or not grows(self.starts):
            raise damaged(path)
        self.made_for = bytes(header["source"])
        self.labels = bytes(header["labels"]) if kind is HEADER_3 else None  # of dictionaries
        self.map_words(int(header["pieces_bytes"]), bytes(header["trees"]))

    def map_words(self, pieces_bytes: int, expected: bytes) -> None:
        """Map the .bin file into memory; raise a TreeError if it does not match the index."""
        path = bin_path(self.prefix)
        count = int(self.starts[-1])
        end = (2 + pieces_bytes) * count
        check_size(path, end if self.labels is None else end + 2 * count)
        if fingerprint([path]) != expected:
            raise TreeError(
                f"{path}: {idx_path(self.prefix)} was written for another version of this file; "
                "create both again with posattn binarize"
            )
        raw = np.memmap(path, np.uint8, "r") if count else np.empty(0, np.uint8)
        self.parents = np.asarray(raw[: 2 * count].view("<u2"))
        self.pieces = np.asarray(raw[2 * count : end].view(f"<u{pieces_bytes}"))
        self.labels_of_words = np.asarray(raw[end:].view("<u2"))

    def __len__(self) -> int:
        return len(self.checksums)

    def __getstate__(self) -> tuple[str, bool, NDArray[np.uint16] | None]:
        return self.prefix, self.with_labels, self.new_labels

    def __setstate__(self, state: tuple[str, bool, NDArray[np.uint16] | None]) -> None:
        self.prefix, self.with_labels, self.new_labels = state
        self.open()

    def read(self, sentences: Integers) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        """Return one record per word of the given sentences.

        The second result is the number of words in each sentence.
        """
        starts, ends = self.starts[sentences], self.starts[sentences + 1]
        lengths = ends - starts
        words = ranges(starts, lengths)
        records = np.empty(len(words), STORED_WORD if self.with_labels else WORD)
        records["parent"], records["pieces"] = self.parents[words], self.pieces[words]
        if self.with_labels:
            labels = self.labels_of_words[words]
            records["labels"] = labels if self.new_labels is None else self.new_labels[labels]
            records = records.view(LABELLED_WORD)
        return records, lengths

    def check(
        self, source_files: Sequence[str | os.PathLike[str]], source: Sequence[Integers]
    ) -> None:
        """Raise a TreeError unless the trees belong to these sentences.

        source: for each sentence, the dictionary indices of its pieces and of the end-of-sentence
            symbol.
        """
        names = f"{idx_path(self.prefix)} does not belong to {source_files[0]}"
        remedy = "create the trees again with posattn binarize"
        if len(self) != len(source):
            differs = first_difference(self, source)
            where = (
                "the shorter one is a prefix of the longer one"
                if differs is None
                else f"the first difference is in sentence {differs + 1}"
            )
            raise TreeError(
                f"{names}: there are {len(self)} trees for {len(source)} sentences ({where}); "
                f"{remedy}"
            )
        if self.made_for == fingerprint(source_files):
            return
        differs = first_difference(self, source)
        if differs is not None:
            raise TreeError(f"{names}: the first difference is in sentence {differs + 1}; {remedy}")


def first_difference(trees: TreeFile, source: Sequence[Integers]) -> int | None:
    """Return the index of the first sentence whose checksum or length differs, or None."""
    for k in range(min(len(trees), len(source))):
        pieces = np.asarray(source[k])
        record, _ = trees.read(np.array([k]))
        if trees.checksums[k] != checksum(pieces) or record["pieces"].sum() + 1 != len(pieces):
            return k
    return None
