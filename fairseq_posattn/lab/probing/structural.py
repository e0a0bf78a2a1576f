"""Find trees in word vectors by the structural probes of Hewitt and Manning 2019.

A probe is a matrix B. The distance probe fits |B (h_i - h_j)|^2 to the distance of two words in the
tree, and the depth probe fits |B h_i|^2 to the depth of a word. The loss of a sentence is the sum
of absolute errors, divided by its squared length (distance) or by its length (depth).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairseq_posattn.lab import lab_extra
from fairseq_posattn.lab.probing.words import WordTree

BATCH, EPOCHS, BAD_EPOCHS, RATE = 20, 30, 5, 1e-3
SHORTEST, LONGEST = 5, 50  # sentences whose rank correlations count
Floats = NDArray[np.float64]


class Padded(NamedTuple):
    """A batch has the vectors of its words (B W C), what is predicted, and which words are real."""

    vectors: Tensor
    wanted: Tensor  # B W W distances, or B W depths
    real: Tensor  # B W


@dataclass
class Sentences:
    """These are the words of some sentences, with their vectors."""

    trees: Sequence[WordTree]
    vectors: NDArray[np.float32]  # words C, all sentences one after the other

    def batches(self, order: Sequence[int], depth: bool) -> Iterator[Padded]:
        """Yield the sentences in this order; what is predicted are depths or distances."""
        ends = np.cumsum([0, *map(len, self.trees)])
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            longest = max(len(self.trees[k]) for k in chosen)
            shape = (len(chosen), longest)
            vectors = np.zeros((*shape, self.vectors.shape[1]), dtype=np.float32)
            wanted = np.zeros(shape if depth else (*shape, longest), dtype=np.float32)
            real = np.zeros(shape, dtype=bool)
            for row, k in enumerate(chosen):
                tree, size = self.trees[k], len(self.trees[k])
                vectors[row, :size] = self.vectors[ends[k] : ends[k + 1]]
                real[row, :size] = True
                if depth:
                    wanted[row, :size] = tree.depths
                else:
                    wanted[row, :size, :size] = tree.distances
            yield Padded(*map(torch.from_numpy, (vectors, wanted, real)))


class Probe(nn.Module):
    """This is the matrix B, which maps vectors to `rank` dimensions."""

    def __init__(self, width: int, rank: int, depth: bool):
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(width, rank).uniform_(-0.05, 0.05))
        self.depth = depth

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the predicted depths, B W, or distances, B W W."""
        mapped = vectors @ self.matrix
        squares = mapped.square().sum(dim=-1)
        if self.depth:
            return squares
        return squares[:, :, None] + squares[:, None] - 2 * mapped @ mapped.transpose(1, 2)

    def loss(self, batch: Padded) -> Tensor:
        """Return the mean over the sentences of their absolute errors for each word or pair."""
        errors = (self(batch.vectors) - batch.wanted).abs()
        lengths = batch.real.sum(dim=1)
        if self.depth:
            return ((errors * batch.real).sum(dim=1) / lengths).mean()
        pairs = batch.real[:, :, None] & batch.real[:, None]
        return ((errors * pairs).sum(dim=(1, 2)) / lengths.square()).mean()


def trained(train: Sentences, dev: Sentences, rank: int, depth: bool, seed: int) -> Probe:
    """Return the probe with the lowest loss on dev.

    The learning rate falls to a tenth after an epoch that brings nothing better; the fifth such
    epoch is the last one.
    """
    torch.manual_seed(seed)
    probe = Probe(train.vectors.shape[1], rank, depth)
    optimizer = torch.optim.Adam(probe.parameters(), lr=RATE)
    best, kept, bad = float("inf"), copy.deepcopy(probe), 0
    for _ in range(EPOCHS):
        for batch in train.batches(torch.randperm(len(train.trees)).tolist(), depth):
            loss = probe.loss(batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = loss_on(probe, dev)
        if found < best - 1e-4:
            best, kept = found, copy.deepcopy(probe)
            continue
        bad += 1
        if bad == BAD_EPOCHS:
            break
        for group in optimizer.param_groups:
            group["lr"] /= 10
    return kept


@torch.no_grad()
def loss_on(probe: Probe, sentences: Sentences) -> float:
    order = range(len(sentences.trees))
    losses = [
        (float(probe.loss(batch)), len(batch.real))
        for batch in sentences.batches(order, probe.depth)
    ]
    return sum(loss * n for loss, n in losses) / sum(n for _, n in losses)


@torch.no_grad()
def predictions(probe: Probe, sentences: Sentences) -> Iterator[tuple[WordTree, Floats]]:
    """Yield each sentence with the depths or distances that the probe predicts."""
    number = 0
    for batch in sentences.batches(range(len(sentences.trees)), probe.depth):
        for predicted in probe(batch.vectors).double().numpy():
            tree = sentences.trees[number]
            size = len(tree)
            yield tree, predicted[:size] if probe.depth else predicted[:size, :size]
            number += 1


def scored(probe: Probe, sentences: Sentences) -> dict[str, float]:
    """Return how well a probe finds the trees of sentences, in %, and its rank correlation."""
    found = list(predictions(probe, sentences))
    name, share = ("root", root_accuracy) if probe.depth else ("uuas", uuas)
    return {name: share(found), "spearman": spearman(found, probe.depth)}


def uuas(found: Sequence[tuple[WordTree, Floats]]) -> float:
    """Return the share of edges of the trees that are in the minimum spanning trees of the
    predicted distances, in %; punctuation is left out.

    As in the authors' program, the edges of a tree are those of the minimum spanning tree of its
    own distances, which joins the words below a punctuation mark to the others without it.
    """
    right = total = 0
    for tree, predicted in found:
        kept = np.flatnonzero(~tree.punctuation)
        within = np.ix_(kept, kept)
        edges, guessed = (spanning_tree(one[within]) for one in (tree.distances, predicted))
        right += len(edges & guessed)
        total += len(edges)
    return 100 * right / total if total else 0.0


def spanning_tree(distances: NDArray) -> set[frozenset[int]]:
    """Return the edges of the minimum spanning tree (Prim 1957); of equal distances that of the
    first words counts as shorter."""
    size = len(distances)
    ranks, upper = np.zeros((size, size), dtype=int), np.triu_indices(size, 1)
    ranks[upper] = distances[upper].argsort(kind="stable").argsort()
    ranks += ranks.T
    near, least = np.zeros(size, dtype=int), ranks[:1].sum(axis=0)
    outside = np.arange(size) > 0
    edges = set()
    while outside.any():
        new = int(np.where(outside, least, size**2).argmin())
        edges.add(frozenset((int(near[new]), new)))
        outside[new] = False
        closer = ranks[new] < least
        near[closer], least[closer] = new, ranks[new][closer]
    return edges


def root_accuracy(found: Sequence[tuple[WordTree, Floats]]) -> float:
    """Return the share of sentences whose root is predicted least deep, in %; punctuation is left
    out."""
    right = total = 0
    for tree, predicted in found:
        if tree.punctuation.all() or 0 not in tree.depths:
            continue
        guess = int(np.where(tree.punctuation, np.inf, predicted).argmin())
        right += int(tree.depths[guess] == 0)
        total += 1
    return 100 * right / total if total else 0.0


def spearman(found: Sequence[tuple[WordTree, Floats]], depth: bool) -> float:
    """Return the rank correlation of the depths in a sentence, or the mean of those of the
    distances from each word: the mean over the lengths of sentences of the mean over a length."""
    of_lengths: dict[int, list[float]] = {}
    for tree, predicted in found:
        if SHORTEST <= len(tree) <= LONGEST:
            pair = (predicted[None], tree.depths[None]) if depth else (predicted, tree.distances)
            values = correlations(*pair)
            if not np.isnan(values).all():
                of_lengths.setdefault(len(tree), []).append(float(np.nanmean(values)))
    return float(np.mean([np.mean(v) for v in of_lengths.values()])) if of_lengths else 0.0


def correlations(first: NDArray, second: NDArray) -> Floats:
    """Return the rank correlation of each two rows; it is nan where a row is constant."""
    with lab_extra("structural probes need"):
        from scipy.stats import rankdata

    a, b = (rankdata(rows, axis=1) for rows in (first, second))
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (a, b))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return found
