"""Compute statistics of a model's attention heads on a test set."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_posattn.core.attention import Mechanism
from fairseq_posattn.core.attention.diagnostics import Diagnostic, diagnostics_of, watch
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.progress import Progress
from fairseq_posattn.inspection.attention import encoder_attention
from fairseq_posattn.inspection.model import HeadRequest
from fairseq_posattn.inspection.sentence import SourceSentence, Subset, read_trees
from fairseq_posattn.scoring.inspection_record import Head, Heads, LearntNumber
from fairseq_posattn.trees.sentence import Sentence

Weights = NDArray[np.float64]  # layers x heads x queries x keys, or computed from such an array


@dataclass
class HeadStatistics:
    """Statistics of attention heads, summed over the sentences of a test set.

    Arrays are of shape (layers, heads).
    """

    sentences: int = 0
    queries: int = 0
    words: int = 0
    neighbours: int = 0
    entropy: Weights = field(default_factory=lambda: np.zeros(()))
    distance: Weights = field(default_factory=lambda: np.zeros(()))
    tree_edges: Weights = field(default_factory=lambda: np.zeros(()))
    learnt: dict[tuple, list[Diagnostic]] = field(default_factory=lambda: defaultdict(list))

    def add(self, weights: Weights) -> None:
        self.sentences += 1
        self.queries += weights.shape[2]
        self.entropy = self.entropy + entropies(weights).sum(axis=-1)
        self.distance = self.distance + distances(weights).sum(axis=-1)

    def add_tree(self, weights: Weights, counts: Sequence[int], parents: Sequence[int]) -> None:
        """Count, for each head, the words in a sentence that attend most to a parent or child.

        counts: the number of pieces of each word. Words without pieces (in multiword tokens) are
            excluded.
        """
        kept = np.flatnonzero(counts)
        if len(kept) < 2:
            return
        edges = edges_of(parents)[np.ix_(kept, kept)]
        found = looked_at(of_words(weights, np.array(counts)[kept]))
        self.tree_edges = self.tree_edges + edges[np.arange(len(kept)), found].sum(axis=-1)
        self.words += len(kept)
        self.neighbours += int(np.diagonal(edges, offset=-1).sum())

    def add_learnt(self, found: Iterable[Diagnostic]) -> None:
        """Add the values that mechanisms have learnt, or that they predict for one sentence."""
        for one in found:
            self.learnt[one.place, one.mechanism, one.name].append(one)

    def record(self) -> Heads:
        """Return the averages over all queries, words or sentences, depending on the statistic."""
        if not self.sentences:
            raise InputError("the subset is empty; choose another one with --gen-subset")
        return Heads(
            sentences=self.sentences,
            words=self.words,
            neighbours=self.neighbours / self.words if self.words else None,
            heads=[
                Head(
                    layer=at[0],
                    head=at[1],
                    entropy=float(self.entropy[at]) / self.queries,
                    distance=float(self.distance[at]) / self.queries,
                    tree_edges=float(self.tree_edges[at]) / self.words if self.words else None,
                )
                for at in np.ndindex(self.entropy.shape)
            ],
            numbers=[
                LearntNumber(
                    place=place,
                    mechanism=mechanism,
                    name=name,
                    heads=found[0].heads,
                    values=(total(found) / self.sentences).tolist(),
                )
                for (place, mechanism, name), found in self.learnt.items()
            ],
        )


def total(found: Sequence[Diagnostic]) -> Weights:
    return reduce(np.add, (np.array(one.values) for one in found))


def entropies(weights: Weights) -> Weights:
    """Return the entropy of each row of weights in nats, after normalising the row."""
    shares = np.clip(weights, 0, None)
    shares = shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1e-12)
    return -(shares * np.log(np.maximum(shares, 1e-12))).sum(axis=-1)


def distances(weights: Weights) -> Weights:
    """Return, for each query, the mean distance to the keys, weighted by attention."""
    queries, keys = weights.shape[-2:]
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    return (weights * apart).sum(axis=-1) / np.maximum(weights.sum(axis=-1), 1e-12)


def of_words(weights: Weights, counts: Sequence[int] | NDArray[np.int_]) -> Weights:
    """Convert attention weights between pieces to weights between words.

    Weights are summed over the pieces of the key word, and averaged over the pieces of the query
    word. Positions after the last word, such as the end-of-sentence token, are dropped.
    """
    ends = np.cumsum(counts, dtype=int).tolist()
    starts = [0, *ends[:-1]]
    inside = weights[..., : ends[-1], : ends[-1]]
    of_keys = np.add.reduceat(inside, starts, axis=-1)
    return np.add.reduceat(of_keys, starts, axis=-2) / np.array(counts)[:, None]


def edges_of(parents: Sequence[int]) -> NDArray[np.bool_]:
    """Return the symmetric adjacency matrix of a tree; the indices of parents start at 1."""
    edges = np.zeros((len(parents), len(parents)), dtype=bool)
    children = np.flatnonzero(parents)
    edges[children, np.array(parents)[children] - 1] = True
    return edges | edges.T


def looked_at(weights: Weights) -> NDArray[np.int64]:
    """Return, for each head and word, the index of the other word with the largest weight."""
    others = np.where(np.eye(weights.shape[-1], dtype=bool), -np.inf, weights)
    found: NDArray[np.int64] = others.argmax(axis=-1)
    return found


def heads(request: HeadRequest) -> Heads:
    """Compute the statistics of all heads on a data subset, or on its first sentences."""
    loaded = request.load()
    loaded.task.needs_trees = None  # load trees if there are any; they contain piece counts
    subset = Subset(loaded, request.gen_subset)
    numbers = range(min(request.first or len(subset), len(subset)))
    given = read_trees(request.trees, numbers) if request.trees else {}
    watch(loaded.model)
    in_decoder = any(isinstance(module, Mechanism) for module in loaded.model.decoder.modules())
    statistics = HeadStatistics()
    for number in Progress(numbers):
        source = subset[number]
        weights = encoder_attention(loaded.model, source.sample).astype(np.float64)
        statistics.add(weights)
        inputs = source.sample["net_input"]
        if in_decoder and "prev_output_tokens" in inputs:  # absent if the data have no references
            with torch.no_grad():
                loaded.model(**inputs)  # the decoder's mechanisms record their predictions
        parents = parents_of(source, given.get(number))
        if parents and len(parents) == len(source.counts):
            statistics.add_tree(weights, source.counts, parents)
        statistics.add_learnt(diagnostics_of(loaded.model))
    return statistics.record()


def parents_of(source: SourceSentence, given: Sentence | None) -> Sequence[int] | None:
    """Return the parents in the given tree, or in the tree of the data if no tree is given.

    The given tree may differ from the tree of the data, but an InputError is raised if it has a
    different number of words or, if the data contain no tree, a different text.
    """
    if given is None:
        return source.words.parents
    source.check(given)
    own = source.words
    if own.parents is not None and given.parents and len(given.words) != len(own.words):
        raise InputError(
            f"{given.where}: sentence {source.number} has {len(given.words)} words here, but "
            f"{len(own.words)} in the data; use the CoNLL-U file that the data were made from"
        )
    return given.parents
