"""Describe the attention heads of a model over a whole test set: what they look at, and how far."""

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

Weights = NDArray[np.float64]  # layers x heads x queries x keys, and other shapes


@dataclass
class Sums:
    """Hold what is summed over the sentences, of each head of each layer."""

    sentences: int = 0
    queries: int = 0
    words: int = 0
    neighbours: int = 0
    entropy: Weights | None = None
    distance: Weights | None = None
    tree_edges: Weights | None = None
    numbers: dict[tuple, tuple[Diagnostic, Weights]] = field(default_factory=dict)

    def add(self, weights: Weights) -> None:
        """Add the weights of a sentence."""
        self.sentences += 1
        self.queries += weights.shape[2]
        self.entropy = plus(self.entropy, entropies(weights).sum(axis=-1))
        self.distance = plus(self.distance, distances(weights).sum(axis=-1))

    def add_tree(self, weights: Weights, counts: Sequence[int], parents: Sequence[int]) -> None:
        """Add the agreement of a sentence with its tree.

        Words without pieces of their own, as in multiword tokens, cannot be looked at.
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
        """Add what a mechanism has learnt, or predicted for a sentence."""
        key = found[:3]
        before = self.numbers[key][1] if key in self.numbers else None
        self.numbers[key] = found, plus(before, np.array(found.values))

    def record(self) -> Heads:
        """Return the means over all queries, words and sentences."""
        if self.entropy is None or self.distance is None:
            raise InputError("there is no sentence in the test set; name another --gen-subset")
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
    """Return a sum, whose first term is there when it is needed."""
    return more if before is None else before + more


def entropies(weights: Weights) -> Weights:
    """Return the entropy of each row of weights, which are made to sum to 1."""
    shares = np.clip(weights, 0, None)
    shares = shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1e-12)
    return -(shares * np.log(np.maximum(shares, 1e-12))).sum(axis=-1)


def distances(weights: Weights) -> Weights:
    """Return how far each query looks, as the mean distance of the keys by their weights."""
    queries, keys = weights.shape[-2:]
    apart = np.abs(np.arange(queries)[:, None] - np.arange(keys))
    return (weights * apart).sum(axis=-1) / np.maximum(weights.sum(axis=-1), 1e-12)


def of_words(weights: Weights, counts: Sequence[int] | NDArray[np.int_]) -> Weights:
    """Return the attention between words: the sum over the pieces of the word that is attended to,
    and the mean over those of the word that attends. What follows the words is left out."""
    ends = np.cumsum(counts, dtype=int).tolist()
    starts = [0, *ends[:-1]]
    inside = weights[..., : ends[-1], : ends[-1]]
    of_keys = np.add.reduceat(inside, starts, axis=-1)
    return np.add.reduceat(of_keys, starts, axis=-2) / np.array(counts)[:, None]


def edges_of(parents: Sequence[int]) -> NDArray[np.bool_]:
    """Return which words are parent and child of each other; parents count from 1."""
    edges = np.zeros((len(parents), len(parents)), dtype=bool)
    for child, parent in enumerate(parents):
        if parent:
            edges[child, parent - 1] = edges[parent - 1, child] = True
    return edges


def looked_at(weights: Weights) -> NDArray[np.int64]:
    """Return the other word that each word of each head attends to most."""
    others = np.where(np.eye(weights.shape[-1], dtype=bool), -np.inf, weights)
    found: NDArray[np.int64] = others.argmax(axis=-1)
    return found


def looks_along_edges(weights: Weights, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return of each word whether it attends most, among the other words, along an edge."""
    return np.take_along_axis(
        np.broadcast_to(edges, weights.shape), looked_at(weights)[..., None], axis=-1
    )[..., 0]


def heads(request: HeadRequest) -> Heads:
    """Return what the heads of a model do over the sentences of a subset, or the first of them."""
    loaded = request.load()
    loaded.task.needs_trees = None  # the trees beside the data say which pieces a word has
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
    """Let the decoder read the reference, so that its mechanisms keep what they predict of it."""
    if "prev_output_tokens" in sample["net_input"]:  # else the data have no references
        model(**sample["net_input"])


def parents_of(
    translator: Translator, sample: dict, pieces: list[str], given: Sentence | None, number: int
) -> Sequence[int] | None:
    """Return the tree of a sentence: the given one, or that of the data.

    A model that reads other trees than the given ones may be compared with them; the words must be
    the same.
    """
    own = translator.words(sample, pieces)
    if given is None:
        return own.parents
    if own.parents is None:
        translator.check(given, own, pieces, number)
    elif given.parents and len(given.words) != len(own.words):
        raise InputError(
            f"{given.where}: sentence {number} has {len(given.words)} words here, but "
            f"{len(own.words)} in the data; give the CoNLL-U file that the data were made from"
        )
    return given.parents
