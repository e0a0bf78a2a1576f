"""A translation dataset with the trees of its source sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, FairseqDataset

from fairseq_posattn.trees import batch
from fairseq_posattn.trees.store import WORD, ranges


class Trees(Protocol):
    """Where the trees of a dataset come from."""

    def __len__(self) -> int: ...

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Records of all words of the sentences, one after the other, and words per sentence."""


class JoinedTrees:
    """Several sources of trees, one after the other, the first repeated: as ConcatDataset."""

    def __init__(self, parts: Sequence[Trees], repeat_first: int = 1):
        self.parts = parts
        sizes = [len(part) * (repeat_first if k == 0 else 1) for k, part in enumerate(parts)]
        self.ends = np.cumsum(sizes)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part_of = np.searchsorted(self.ends, sentences, side="right")
        order = np.argsort(part_of, kind="stable")
        read = [self.read_part(k, sentences[part_of == k]) for k in np.unique(part_of)]
        records = np.concatenate([r for r, _ in read]) if read else np.empty(0, WORD)
        lengths = np.empty(len(sentences), np.int64)
        lengths[order] = np.concatenate([n for _, n in read]) if read else 0
        starts = np.empty(len(sentences), np.int64)
        starts[order] = np.cumsum(lengths[order]) - lengths[order]
        return records[ranges(starts, lengths)], lengths

    def read_part(self, k: int, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = self.ends[k - 1] if k else 0
        return self.parts[k].read((sentences - start) % len(self.parts[k]))


class TreeDataset(BaseWrapperDataset):
    """Adds net_input['source_tree'] to the batches of a LanguagePairDataset.

    Nothing is added to the single samples: the trees of a batch are read and laid out at once.
    """

    def __init__(
        self,
        dataset: FairseqDataset,
        trees: Trees,
        on_batch: Callable[[dict], None] | None = None,
    ):
        super().__init__(dataset)
        self.trees = trees
        self.on_batch = on_batch

    @property
    def src(self):
        return self.dataset.src

    @property
    def tgt(self):
        return self.dataset.tgt

    def collater(self, samples, **kwargs):
        merged = self.dataset.collater(samples, **kwargs)
        if merged:
            merged["net_input"]["source_tree"] = self.source_tree(merged)
            if self.on_batch is not None:
                self.on_batch(merged)
        return merged

    def source_tree(self, merged: dict) -> torch.Tensor:
        """What `positions.SourceTree` is made from, in the order that the batch was sorted into."""
        records, lengths = self.trees.read(merged["id"].numpy())
        pieces = merged["net_input"]["src_lengths"].numpy() - 1
        return torch.from_numpy(batch.collate(records, lengths, pieces))
