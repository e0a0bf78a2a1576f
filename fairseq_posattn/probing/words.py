"""Encode sentences of tasks and words of treebanks, and prepare the treebanks' trees.

The vectors of sentences are cached on disk, so that an interrupted run can be resumed. A cache file
is named after a hash of the checkpoint, data, sentences, trees and pooling. The vector of a word is
the mean of the vectors of its pieces.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import full_disk_named
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.step_records import StepRecord
from fairseq_posattn.probing.encoding import Batch, SentenceEncoder
from fairseq_posattn.text.live.segmented import SegmentedLine
from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.sentence import NO_TAGS, Sentence

CHUNK = 4096  # number of sentences after which progress is saved
Vectors = NDArray[np.float32]  # sentences x layers x width; the last layer: embeddings
Places = NDArray[np.int64]  # row indices of vectors in the file
Encode = Callable[[int, int], Iterator[tuple[Places, Vectors]]]  # arguments: start, end (exclusive)


def cached(
    folder: Path, about: dict[str, Any], what: str, sentences: int, rows: int, encode: Encode
) -> Vectors:
    """Encode sentences unless the folder contains their vectors, and return a memory map.

    about: all inputs that affect the vectors.
    what: a description of the sentences for the log.
    rows: the number of vectors.
    """
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    path = folder / f"{key[:16]}.npy"
    if not path.is_file():
        say(f"encoding {what}")
        folder.mkdir(parents=True, exist_ok=True)
        with locked(path), full_disk_named(folder):
            if not path.is_file():
                make(path, about, sentences, rows, encode)
    found: Vectors = np.load(path, mmap_mode="r")
    return found


def make(path: Path, about: dict[str, Any], sentences: int, rows: int, encode: Encode) -> None:
    """Encode the sentences that an interrupted run has not encoded yet."""
    growing, note = path.with_suffix(".growing"), path.with_suffix(".json")
    vectors: np.memmap | None = None
    begun, begin = StepRecord.read(note), 0
    if begun and begun.key == about and growing.is_file():
        begin = int(begun.answer["done"])
        vectors = open_memmap(growing, mode="r+")
    else:
        note.unlink(missing_ok=True)
    for start in Progress(range(begin, sentences, CHUNK), unit="chunks"):
        end = min(start + CHUNK, sentences)
        for places, found in encode(start, end):
            if vectors is None:
                vectors = new_file(growing, (rows, *found.shape[1:]))
            vectors[places] = found
        assert vectors is not None
        vectors.flush()
        StepRecord(about, None, {"done": end, "of": sentences}).write(note)
    growing.replace(path)


def new_file(path: Path, shape: Sequence[int]) -> np.memmap:
    """Create a memory-mapped file, and allocate its disk space immediately.

    Otherwise, writing to the map on a full disk would kill the process (SIGBUS).
    """
    found = open_memmap(path, mode="w+", dtype=np.float32, shape=tuple(shape))
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return found


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


# Arguments: hidden states (B T C), and masks of the pieces (B T) and of `</s>` (B T). Result: B C.
POOLINGS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mean": mean,
    "max": maximum,
    "last": last,
    "end": end_of_sentence,
}


def of_sentences(
    encoder: SentenceEncoder, texts: Sequence[str], trees: Sequence[Sentence] | None, pooling: str
) -> Encode:
    """Return a function that encodes a range of the sentences to one vector per sentence."""

    def encode(start: int, end: int) -> Iterator[tuple[Places, Vectors]]:
        part = trees and trees[start:end]
        for batch in encoder.batches(encoder.segmented(texts[start:end], part), part):
            pooled = [POOLINGS[pooling](x, batch.real, batch.end) for x in batch.layers]
            pooled.append(mean(batch.embeddings, batch.real, batch.end))
            yield start + batch.numbers, joined(pooled)

    return encode


def joined(layers: Sequence[Tensor]) -> Vectors:
    """Stack the vectors of all layers into an array of shape (N, layers, width).

    Narrower layers, such as embeddings, are padded with zeros.
    """
    width = max(x.shape[1] for x in layers)
    filled = [pad(x, (0, width - x.shape[1])) for x in layers]
    found: Vectors = torch.stack(filled, dim=1).float().cpu().numpy()
    return found


def read_text_vectors(path: Path, sentences: int) -> Vectors:
    """Read vectors of another toolkit from a text file with one line of numbers per sentence.

    Raises InputError for invalid numbers, unequal widths, and a wrong number of lines.
    """
    rows: list[Vectors] = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            row = np.array(line.split(), dtype=np.float32)
        except ValueError:
            raise InputError(
                f"{path}:{number}: the line contains text other than numbers; write numbers only"
            ) from None
        if not len(row) or (rows and len(row) != len(rows[0])) or not np.isfinite(row).all():
            expected = f"{len(rows[0])} finite numbers" if rows else "finite numbers"
            raise InputError(
                f"{path}:{number}: the line has {len(row)} number(s), expected {expected}; correct "
                "the file"
            )
        rows.append(row)
    if len(rows) != sentences:
        raise InputError(
            f"{path} has {len(rows):,} vectors for {sentences:,} sentences; write one for each "
            "line of the task's file"
        )
    return np.stack(rows)


@dataclass(frozen=True)
class WordTree:
    """A treebank sentence, without the words that have no pieces.

    forms: the words in lower case.
    parents: the index of each word's parent among these words; -1 for the root, and for words whose
        parent has no pieces.
    distances, depths: the numbers of edges in the complete tree.
    punctuation: a mask of the words that are punctuation.
    """

    forms: list[str]
    parents: NDArray[np.int64]
    relations: list[str]
    tags: list[str]
    distances: NDArray[np.int64]
    depths: NDArray[np.int64]
    punctuation: NDArray[np.bool_]

    @classmethod
    def of(cls, sentence: Sentence, counts: Sequence[int]) -> WordTree:
        """Drop the words of a sentence that have no pieces.

        counts: the number of pieces of each word.
        """
        kept = np.flatnonzero(counts)
        places = np.full(len(counts) + 1, -1)
        places[kept] = np.arange(len(kept))
        parents = list(sentence.parents or ())
        tags = [tag.upos for tag in sentence.tags or [NO_TAGS] * len(parents)]
        relations = sentence.relations or ["_"] * len(parents)
        return cls(
            forms=[sentence.words[k].lower() for k in kept],
            parents=places[np.array(parents, dtype=int)[kept] - 1],
            relations=[relations[k].partition(":")[0] for k in kept],
            tags=[tags[k] for k in kept],
            distances=distances(parents)[np.ix_(kept, kept)],
            depths=np.array(depths(parents))[kept],
            punctuation=np.array([tags[k] == "PUNCT" for k in kept], dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.forms)


def distances(parents: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of edges between each pair of words; the indices of parents start at 1."""
    size = len(parents)
    above = np.zeros((size, size), dtype=bool)  # for each word, itself and its ancestors
    for word in range(size):
        at = word + 1
        while at:
            above[word, at - 1] = True
            at = parents[at - 1]
    depth = above.sum(axis=1)
    shared = above.astype(np.int64) @ above.T.astype(np.int64)  # number of common ancestors
    found: NDArray[np.int64] = depth[:, None] + depth - 2 * shared
    return found


@dataclass
class WordPart:
    """The sentences of one split of a treebank, segmented for a model.

    trees: the trees that the model reads, which may differ from those of the treebank.
    """

    encoder: SentenceEncoder
    gold: list[Sentence]
    trees: list[Sentence] | None

    @cached_property
    def lines(self) -> list[SegmentedLine]:
        return self.encoder.segmented([str(sentence) for sentence in self.gold], self.trees)

    @cached_property
    def counts(self) -> list[list[int]]:
        """The number of pieces of each word of the treebank."""
        pairs = zip(self.lines, self.gold, strict=True)
        return [list(line.project(self.encoder.normal(gold))[1]) for line, gold in pairs]

    @cached_property
    def words(self) -> list[WordTree]:
        pairs = zip(self.gold, self.counts, strict=True)
        return [WordTree.of(sentence, counts) for sentence, counts in pairs]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The cumulative number of words up to the end of each sentence, starting with 0."""
        return np.cumsum([0, *map(len, self.words)])

    def encode(self, start: int, end: int) -> Iterator[tuple[Places, Vectors]]:
        """Encode the sentences from `start` to `end`, and yield word indices and vectors by batch.

        The indices refer to the words of all sentences; the vectors are of shape (words, layers,
        width).
        """
        trees = self.trees and self.trees[start:end]
        for batch in self.encoder.batches(self.lines[start:end], trees):
            numbers = start + batch.numbers
            counts = [[n for n in self.counts[k] if n] for k in numbers]
            places = [np.arange(self.ends[k], self.ends[k + 1]) for k in numbers]
            yield np.concatenate(places), word_vectors(batch, counts)


def word_vectors(batch: Batch, counts: Sequence[Sequence[int]]) -> Vectors:
    """Return the mean vector of each word's pieces, as an array of shape (words, layers, width)."""
    flat = torch.tensor([n for of_sentence in counts for n in of_sentence])
    word = torch.repeat_interleave(torch.arange(len(flat)), flat).to(batch.real.device)
    found = []
    for layer in [*batch.layers, batch.embeddings]:
        pieces = layer[batch.real]
        sums = pieces.new_zeros(len(flat), pieces.shape[1]).index_add_(0, word, pieces)
        found.append(sums / flat.to(pieces)[:, None])
    return joined(found)
