"""A translation dataset that includes source trees, and the implementation of --print-tree."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, FairseqDataset

from fairseq_posattn.text.live.line_trees import NewTrees
from fairseq_posattn.trees import batch
from fairseq_posattn.trees.drawing import drawn, number_of_words, words_by_counts, words_of_tree
from fairseq_posattn.trees.store_format import WORD, ranges


class Trees(Protocol):
    """The interface through which `TreeDataset` reads the trees of a dataset."""

    def __len__(self) -> int: ...

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated word records of the given sentences, and the sentence lengths."""


class JoinedTrees:
    """Concatenates the trees of several datasets; --upsample-primary repeats the first one."""

    def __init__(self, parts: Sequence[Trees], repeat_first: int = 1):
        self.parts = parts
        sizes = [len(part) * (repeat_first if k == 0 else 1) for k, part in enumerate(parts)]
        self.ends = np.cumsum(sizes)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the word records and lengths of sentences from any of the datasets."""
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

    Trees are added to batches and not to samples, because it is faster to read all trees of a batch
    at once. A batch of new text also contains its trees as `sentences`.
    """

    def __init__(self, dataset: FairseqDataset, trees: Trees):
        super().__init__(dataset)
        self.trees = trees

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
            if isinstance(self.trees, NewTrees):
                merged["sentences"] = [self.trees.found[k] for k in merged["id"].tolist()]
        return merged

    def source_tree(self, merged: dict) -> torch.Tensor:
        """Return the trees of a batch as a tensor for `SourceTree.of_batch`.

        The trees are in the order of the collated batch, which is sorted by length.
        """
        records, lengths = self.trees.read(merged["id"].numpy())
        pieces = merged["net_input"]["src_lengths"].numpy() - 1
        return torch.from_numpy(batch.collate(records, lengths, pieces))


def print_tree(number: int, words: Sequence[str], parents: Sequence[int]) -> None:
    """Print a tree with one line per word: TREE-NUMBER, depth and word.

    fairseq prints the source sentence with the same number, as S-NUMBER.
    """
    print("".join(f"TREE-{number}\t{line}\n" for line in drawn(words, parents)), end="")


def print_new_trees(sample: dict) -> None:
    """Print the trees of new text, with the parser's words."""
    pairs = zip(sample["id"].tolist(), sample["sentences"], strict=True)
    for number, sentence in sorted(pairs, key=itemgetter(0)):
        words = words_of_tree(sentence.tokens, sentence.words_of_token)
        print_tree(number, words, sentence.parents or [])


def print_read_trees(sample: dict, dictionary: Any, separator: str) -> None:
    """Print the trees of binarised data, with words that are restored from the pieces."""
    parents, counts = sample["net_input"]["source_tree"][:2].tolist()
    for k, number in enumerate(sample["id"].tolist()):
        tokens = sample["net_input"]["src_tokens"][k]
        pieces = dictionary.string(tokens[tokens != dictionary.pad()]).split()
        length = number_of_words(parents[k], counts[k])
        words = words_by_counts(pieces, counts[k][:length], separator)
        print_tree(number, words, parents[k][:length])
