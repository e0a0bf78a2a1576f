"""Predict trees from word vectors with the structural probes of Hewitt and Manning (2019).

A probe is a matrix B. The distance probe fits |B (h_i - h_j)|^2 to the distance between two words
in the tree, and the depth probe fits |B h_i|^2 to the depth of a word. The loss of a sentence is
the sum of absolute errors, divided by the squared length (distances) or by the length (depths).
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from fairseq_posattn.errors import lab_extra
from fairseq_posattn.probing.words import WordTree

BATCH, EPOCHS, BAD_EPOCHS, RATE = 20, 30, 5, 1e-3
SHORTEST, LONGEST = 5, 50  # lengths of sentences for which rank correlations are computed
Floats = NDArray[np.float64]


class Padded(NamedTuple):
    """A padded batch of sentences."""

    vectors: Tensor  # B W C
    wanted: Tensor  # true distances, B W W, or depths, B W
    real: Tensor  # mask of the words, B W


@dataclass
class Sentences:
    """The trees of sentences, and the vectors of their words."""

    trees: Sequence[WordTree]
    vectors: NDArray[np.float32]  # words C, with all sentences concatenated

    def batches(self, order: Sequence[int], depth: bool) -> Iterator[Padded]:
        """Yield batches of sentences in this order, with their true depths or distances."""
        vectors = torch.from_numpy(self.vectors).split([len(tree) for tree in self.trees])
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            trees = [self.trees[k] for k in chosen]
            real = padded([torch.ones(len(tree), dtype=torch.bool) for tree in trees])
            wanted = real.new_zeros(real.shape if depth else (*real.shape, real.shape[1])).float()
            for row, tree in enumerate(trees):
                true = torch.from_numpy(tree.depths if depth else tree.distances)
                wanted[row, : len(tree)][..., : len(tree)] = true
            yield Padded(padded([vectors[k] for k in chosen]), wanted, real)


def padded(sentences: list[Tensor]) -> Tensor:
    return pad_sequence(sentences, batch_first=True)


class Probe(nn.Module):
    """The matrix B of a depth or distance probe, which maps vectors to `rank` dimensions."""

    def __init__(self, width: int, rank: int, depth: bool):
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(width, rank).uniform_(-0.05, 0.05))
        self.depth = depth

    def forward(self, vectors: Tensor) -> Tensor:
        """Predict depths (batch, words) or distances (batch, words, words).

        vectors: word vectors of shape (batch, words, width).
        """
        mapped = vectors @ self.matrix
        squares = mapped.square().sum(dim=-1)
        if self.depth:
            return squares
        return squares[:, :, None] + squares[:, None] - 2 * mapped @ mapped.transpose(1, 2)

    def loss(self, batch: Padded) -> Tensor:
        """Return the mean loss over sentences.

        The loss of a sentence is its mean absolute error per word or per pair of words.
        """
        errors = (self(batch.vectors) - batch.wanted).abs()
        lengths = batch.real.sum(dim=1)
        if self.depth:
            return ((errors * batch.real).sum(dim=1) / lengths).mean()
        pairs = batch.real[:, :, None] & batch.real[:, None]
        return ((errors * pairs).sum(dim=(1, 2)) / lengths.square()).mean()


def trained(train: Sentences, dev: Sentences, rank: int, depth: bool, seed: int) -> Probe:
    """Train a probe, and return it with the parameters that have the lowest loss on dev.

    After each epoch without improvement, the learning rate is divided by 10. Training stops at the
    fifth such epoch.
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
    """Yield each sentence with its predicted depths or distances."""
    number = 0
    for batch in sentences.batches(range(len(sentences.trees)), probe.depth):
        for predicted in probe(batch.vectors).double().numpy():
            tree = sentences.trees[number]
            size = len(tree)
            yield tree, predicted[:size] if probe.depth else predicted[:size, :size]
            number += 1


def scored(probe: Probe, sentences: Sentences) -> dict[str, float]:
    """Evaluate a probe: UUAS or root accuracy in %, and Spearman's rank correlation."""
    found = list(predictions(probe, sentences))
    name, share = ("root", root_accuracy) if probe.depth else ("uuas", uuas)
    return {name: share(found), "spearman": spearman(found, probe.depth)}


def uuas(found: Sequence[tuple[WordTree, Floats]]) -> float:
    """Return the unlabelled undirected attachment score in %, excluding punctuation.

    Gold and predicted edges are those of minimum spanning trees of the distances. Therefore, as in
    the authors' code, words whose parent is a punctuation mark are connected as well.
    """
    right = total = 0
    for tree, predicted in found:
        kept = np.flatnonzero(~tree.punctuation)
        within = np.ix_(kept, kept)
        edges, guessed = (spanning_tree(one[within]) for one in (tree.distances, predicted))
        right += len(edges & guessed)
        total += len(edges)
    return 100 * right / total if total else 0.0


def spanning_tree(distances: NDArray) -> set[tuple[int, int]]:
    """Return the edges of the minimum spanning tree.

    Among edges of equal length, the edge between the earliest words is preferred.
    """
    with lab_extra("structural probes need"):
        from scipy.sparse.csgraph import minimum_spanning_tree

    upper = np.triu_indices(len(distances), 1)
    ranks = np.zeros(distances.shape)  # 0 for no edge
    ranks[upper] = 1 + distances[upper].argsort(kind="stable").argsort()
    return set(zip(*minimum_spanning_tree(ranks).nonzero(), strict=True))


def root_accuracy(found: Sequence[tuple[WordTree, Floats]]) -> float:
    """Return the percentage of sentences in which the root has the smallest predicted depth.

    Punctuation is excluded.
    """
    right = total = 0
    for tree, predicted in found:
        if tree.punctuation.all() or 0 not in tree.depths:
            continue
        guess = int(np.where(tree.punctuation, np.inf, predicted).argmin())
        right += int(tree.depths[guess] == 0)
        total += 1
    return 100 * right / total if total else 0.0


def spearman(found: Sequence[tuple[WordTree, Floats]], depth: bool) -> float:
    """Return Spearman's correlation between predicted and true depths or distances.

    For distances, the correlations of the words in a sentence are averaged. The results are
    averaged over the sentences of each length, and then over all lengths.
    """
    of_lengths: dict[int, list[float]] = {}
    for tree, predicted in found:
        if SHORTEST <= len(tree) <= LONGEST:
            pair = (predicted[None], tree.depths[None]) if depth else (predicted, tree.distances)
            values = correlations(*pair)
            if not np.isnan(values).all():
                of_lengths.setdefault(len(tree), []).append(float(np.nanmean(values)))
    return float(np.mean([np.mean(v) for v in of_lengths.values()])) if of_lengths else 0.0


def correlations(first: NDArray, second: NDArray) -> Floats:
    """Return Spearman's correlation for each pair of rows, or nan if a row is constant."""
    with lab_extra("structural probes need"):
        from scipy.stats import rankdata

    a, b = (rankdata(rows, axis=1) for rows in (first, second))
    a, b = (rows - rows.mean(axis=1, keepdims=True) for rows in (a, b))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return found
