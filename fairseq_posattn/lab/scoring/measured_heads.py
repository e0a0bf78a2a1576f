"""Compute statistics of a model's attention heads on a test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fairseq_posattn.core.attention import Mechanism
from fairseq_posattn.core.attention.diagnostics import Diagnostic, diagnostics_of, watch
from fairseq_posattn.errors import InputError
from fairseq_posattn.io.progress import progress
from fairseq_posattn.lab.scoring.attention_export import Translator, read_trees
from fairseq_posattn.lab.scoring.attention_maps import attention
from fairseq_posattn.lab.scoring.head_record import Head, Heads, LearntNumber
from fairseq_posattn.lab.scoring.requests import HeadRequest
from fairseq_posattn.trees.sentence import Sentence

Weights = NDArray[np.float64]  # layers x heads x queries x keys, or computed from such an array


@dataclass
class Sums:
    """Sums over the sentences of a test set; arrays are of shape (layers, heads)."""

    sentences: int = 0
    queries: int = 0
    words: int = 0
    neighbours: int = 0
    entropy: Weights | None = None
    distance: Weights | None = None
    tree_edges: Weights | None = None
    numbers: dict[tuple, tuple[Diagnostic, Weights]] = field(default_factory=dict)

    def add(self, weights: Weights) -> None:
        self.sentences += 1
        self.queries += weights.shape[2]
        self.entropy = plus(self.entropy, entropies(weights).sum(axis=-1))
        self.distance = plus(self.distance, distances(weights).sum(axis=-1))

    def add_tree(self, weights: Weights, counts: Sequence[int], parents: Sequence[int]) -> None:
        """Count, for each head, the words in a sentence that attend most to a parent or child.

        counts: the number of pieces of each word. Words without pieces (in multiword tokens) are
            excluded.
        """
        kept = np.flatnonzero(counts)
        if len(kept) < 2:
            return
        edges = edges_of(parents)[np.ix_(kept, kept)]
        found = looks_along_edges(of_words(weights, np.array(counts)[kept]), edges)
        self.tree_edges = plus(self.tree_edges, found.sum(axis=-1))
        self.words += len(kept)
        self.neighbours += int(np.diagonal(edges, offset=-1).sum())

    def add_numbers(self, found: Diagnostic) -> None:
        """Add the values that a mechanism has learnt, or that it predicts for one sentence."""
        key = found[:3]
        before = self.numbers[key][1] if key in self.numbers else None
        self.numbers[key] = found, plus(before, np.array(found.values))

    def record(self) -> Heads:
        """Return the averages over all queries, words or sentences, depending on the statistic."""
        if self.entropy is None or self.distance is None:
            raise InputError("the subset is empty; choose another one with --gen-subset")
        edges = self.tree_edges
        return Heads(
            sentences=self.sentences,
            words=self.words,
            neighbours=self.neighbours / self.words if self.words else None,
            heads=[
                Head(
                    layer=layer,
                    head=head,
                    entropy=float(self.entropy[layer, head]) / self.queries,
                    distance=float(self.distance[layer, head]) / self.queries,
                    tree_edges=None if edges is None else float(edges[layer, head]) / self.words,
                )
                for layer, head in np.ndindex(self.entropy.shape)
            ],
            numbers=[
                LearntNumber(
                    place=found.place,
                    mechanism=found.mechanism,
                    name=found.name,
                    heads=found.heads,
                    values=(summed / self.sentences).tolist(),
                )
                for found, summed in self.numbers.values()
            ],
        )


def plus(before: Weights | None, more: Weights) -> Weights:
    return more if before is None else before + more


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
    for child, parent in enumerate(parents):
        if parent:
            edges[child, parent - 1] = edges[parent - 1, child] = True
    return edges


def looked_at(weights: Weights) -> NDArray[np.int64]:
    """Return, for each head and word, the index of the other word with the largest weight."""
    others = np.where(np.eye(weights.shape[-1], dtype=bool), -np.inf, weights)
    found: NDArray[np.int64] = others.argmax(axis=-1)
    return found


def looks_along_edges(weights: Weights, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return, for each head and word, whether it attends most to the word's parent or a child.

    Attention of a word to itself is ignored.
    """
    return np.take_along_axis(
        np.broadcast_to(edges, weights.shape), looked_at(weights)[..., None], axis=-1
    )[..., 0]


def heads(request: HeadRequest) -> Heads:
    """Compute the statistics of all heads on a data subset, or on its first sentences."""
    loaded = request.load()
    loaded.task.needs_trees = None  # load trees if there are any; they contain piece counts
    translator = Translator(loaded, request.gen_subset, str, beam=1, lenpen=1.0)
    numbers = range(min(request.first or len(translator.dataset), len(translator.dataset)))
    given = read_trees(request.trees, numbers) if request.trees else {}
    watch(loaded.model)
    in_decoder = has_mechanisms(loaded.model.decoder)
    sums = Sums()
    for number in progress(numbers):
        sample = translator.sample(number)
        pieces = translator.pieces(sample)
        weights = attention(loaded.model, sample).astype(np.float64)
        sums.add(weights)
        if in_decoder:
            read_reference(loaded.model, sample)
        counts = translator.counts(sample, pieces)
        parents = parents_of(translator, sample, pieces, given.get(number), number)
        if parents and len(parents) == len(counts):
            sums.add_tree(weights, counts, parents)
        for found in diagnostics_of(loaded.model):
            sums.add_numbers(found)
    return sums.record()


def has_mechanisms(decoder: nn.Module) -> bool:
    return any(isinstance(module, Mechanism) for module in decoder.modules())


@torch.no_grad()
def read_reference(model: nn.Module, sample: dict) -> None:
    """Run the decoder on the reference, so that its mechanisms record their predictions."""
    if "prev_output_tokens" in sample["net_input"]:  # absent if the data contain no references
        model(**sample["net_input"])


def parents_of(
    translator: Translator, sample: dict, pieces: list[str], given: Sentence | None, number: int
) -> Sequence[int] | None:
    """Return the parents in the given tree, or in the tree of the data if no tree is given.

    The given tree may differ from the tree of the data, but an InputError is raised if it has a
    different number of words or, if the data contain no tree, a different text.
    """
    own = translator.words(sample, pieces)
    if given is None:
        return own.parents
    if own.parents is None:
        translator.check(given, own, pieces, number)
    elif given.parents and len(given.words) != len(own.words):
        raise InputError(
            f"{given.where}: sentence {number} has {len(given.words)} words here, but "
            f"{len(own.words)} in the data; use the CoNLL-U file that the data were made from"
        )
    return given.parents
