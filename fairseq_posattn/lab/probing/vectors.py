"""Encode the sentences of a task, and keep their vectors, so that a killed run goes on.

The vectors of a model are in a file whose name depends on all that they depend on: the checkpoint,
the data, the sentences, the trees and the pooling.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.atomic import full_disk_named
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.progress import progress
from fairseq_posattn.lab.probing.encoding import SentenceEncoder
from fairseq_posattn.trees.sentence import Sentence
from fairseq_posattn.work.made import Made

CHUNK = 4096  # so many sentences are encoded between two notes of how far the work is
Vectors = NDArray[np.float32]  # sentences x layers x dimensions; the last layer are embeddings
Places = NDArray[np.int64]  # where vectors stand in the file
Encode = Callable[[int, int], Iterator[tuple[Places, Vectors]]]  # first sentence, and that after


@dataclass(frozen=True)
class VectorFile:
    """This is the file of the vectors of a task by a model; `about` is all that they depend on."""

    folder: Path
    about: dict[str, Any]

    @property
    def path(self) -> Path:
        key = hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{key[:16]}.npy"

    @property
    def growing(self) -> Path:
        return self.path.with_suffix(".growing")

    @property
    def note(self) -> Path:
        """Return the file that says how far the work is."""
        return self.path.with_suffix(".json")

    @property
    def complete(self) -> bool:
        return self.path.is_file()

    def read(self) -> Vectors:
        """Return the vectors, which stay on the disk."""
        found: Vectors = np.load(self.path, mmap_mode="r")
        return found

    def done(self) -> int:
        """Return how many sentences a run before this one has encoded."""
        begun = Made.read(self.note)
        if begun is None or begun.key != self.about or not self.growing.is_file():
            return 0
        return int(begun.answer["done"])

    def make(self, sentences: int, rows: int, encode: Encode) -> Vectors:
        """Encode what is not encoded yet, and return the vectors.

        sentences, rows: how many sentences there are, and how many vectors they have.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.path), full_disk_named(self.folder):
            if self.complete:
                return self.read()
            begin = self.done()
            if not begin:
                self.note.unlink(missing_ok=True)
            vectors: np.memmap | None = open_memmap(self.growing, mode="r+") if begin else None
            for start in progress(range(begin, sentences, CHUNK), unit=" chunks"):
                end = min(start + CHUNK, sentences)
                for places, found in encode(start, end):
                    if vectors is None:
                        vectors = new_file(self.growing, (rows, *found.shape[1:]))
                    vectors[places] = found
                assert vectors is not None
                vectors.flush()
                Made(self.about, None, {"done": end, "of": sentences}).write(self.note)
            del vectors
            self.growing.replace(self.path)
        return self.read()


def mean(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    weights = real.unsqueeze(-1).to(states)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def maximum(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    return states.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(dim=1)


def last(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    places = torch.arange(real.shape[1], device=real.device) * real
    return states[torch.arange(len(states)), places.argmax(dim=1)]


def end_of_sentence(states: Tensor, real: Tensor, end: Tensor) -> Tensor:
    return states[torch.arange(len(states)), end.int().argmax(dim=1)]


# Each takes the vectors of the pieces (B T C), which pieces are real (B T), and where the sentence
# ends (B T), and returns B C.
POOLINGS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mean": mean,
    "max": maximum,
    "last": last,
    "end": end_of_sentence,
}


def of_sentences(
    encoder: SentenceEncoder, texts: Sequence[str], trees: Sequence[Sentence] | None, pooling: str
) -> Encode:
    """Return what encodes a part of the sentences, each of which gets one vector."""

    def encode(start: int, end: int) -> Iterator[tuple[Places, Vectors]]:
        part = trees and trees[start:end]
        for batch in encoder.batches(encoder.segmented(texts[start:end], part), part):
            pooled = [POOLINGS[pooling](x, batch.real, batch.end) for x in batch.layers]
            pooled.append(mean(batch.embeddings, batch.real, batch.end))
            yield start + batch.numbers, joined(pooled)

    return encode


def joined(layers: Sequence[Tensor]) -> Vectors:
    """Return the vectors of all layers, N layers C; zeros fill those that are shorter, as
    embeddings may be."""
    width = max(x.shape[1] for x in layers)
    filled = [torch.nn.functional.pad(x, (0, width - x.shape[1])) for x in layers]
    found: Vectors = torch.stack(filled, dim=1).float().cpu().numpy()
    return found


def new_file(path: Path, shape: Sequence[int]) -> np.memmap:
    """Make a file for vectors that has its place on the disk at once.

    Without it, a full disk would kill the process where the file is written.
    """
    found = open_memmap(path, mode="w+", dtype=np.float32, shape=tuple(shape))
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return found


def read_text_vectors(path: Path, sentences: int) -> Vectors:
    """Read the vectors that another toolkit made: a line of numbers for each sentence."""
    rows: list[NDArray[np.float32]] = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = np.array(line.split(), dtype=np.float32)
        except ValueError:
            raise InputError(f"{path}:{number}: the line must have numbers only") from None
        if not len(row) or (rows and len(row) != len(rows[0])) or not np.isfinite(row).all():
            expected = f"{len(rows[0])} finite numbers" if rows else "finite numbers"
            raise InputError(
                f"{path}:{number}: the line has {len(row)} number(s); expected {expected}"
            )
        rows.append(row)
    if len(rows) != sentences:
        raise InputError(
            f"{path}: there are {len(rows):,} vectors for {sentences:,} sentences; write one for "
            "each line of the file of the task"
        )
    return np.stack(rows)[:, None]
