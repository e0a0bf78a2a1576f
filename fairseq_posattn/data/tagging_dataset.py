"""Sentences for the tagger: numbers of words, of their characters and, if known, of their tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from fairseq.data import FairseqDataset, data_utils
from torch import Tensor

from fairseq_posattn.tagging.network import PADDING


class TaggingDataset(FairseqDataset):
    """words, chars, tags: one tensor for each sentence; in chars each word ends with padding."""

    def __init__(self, words: Sequence, chars: Sequence, tags: Sequence | None = None):
        self.words, self.chars, self.tags = words, chars, tags
        sizes = words.sizes if hasattr(words, "sizes") else [len(w) for w in words]
        self.sizes = np.asarray(sizes)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, k: int) -> dict:
        tags = None if self.tags is None else self.tags[k]
        return {"id": k, "words": self.words[k], "chars": self.chars[k], "tags": tags}

    def collater(self, sentences: list[dict]) -> dict:
        if not sentences:
            return {}
        words = padded([s["words"] for s in sentences])  # B T
        spellings, spelling_of = distinct(spellings_of_words([s["chars"] for s in sentences]))
        placed = torch.zeros_like(words)
        placed[words != PADDING] = spelling_of
        batch = {
            "id": torch.tensor([s["id"] for s in sentences]),
            "nsentences": len(sentences),
            "ntokens": int((words != PADDING).sum()),
            "net_input": {"words": words, "spellings": spellings, "spelling_of": placed},
        }
        if self.tags is not None:
            batch["target"] = padded([s["tags"] for s in sentences])
        return batch

    def num_tokens(self, k: int) -> int:
        return int(self.sizes[k])

    def num_tokens_vec(self, indices) -> np.ndarray:
        return self.sizes[indices]

    def size(self, k: int) -> int:
        return int(self.sizes[k])

    def ordered_indices(self) -> np.ndarray:
        """By length, those of equal length in a new order each time."""
        order = np.random.permutation(len(self))
        return order[np.argsort(self.sizes[order], kind="stable")]

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return False  # other sentences meet in a batch in each epoch

    @property
    def supports_prefetch(self) -> bool:
        return False


def padded(rows: list[Tensor]) -> Tensor:
    return data_utils.collate_tokens([row.long() for row in rows], PADDING)


def spellings_of_words(chars: list[Tensor]) -> np.ndarray:
    """Sentences of characters in which padding ends each word -> N C, one row for each word."""
    flat = torch.cat(list(chars)).numpy()
    ends = np.flatnonzero(flat == PADDING)
    starts = np.concatenate([[0], ends[:-1] + 1])
    columns = np.arange((ends - starts).max())
    index = starts[:, None] + columns
    inside = index < ends[:, None]
    return np.where(inside, flat[np.minimum(index, len(flat) - 1)], PADDING)


def distinct(spellings: np.ndarray) -> tuple[Tensor, Tensor]:
    """N C -> the different rows U C, and which of them each row is: a word that occurs twice in a
    batch goes through the network once."""
    keys = np.ascontiguousarray(spellings).view([("", spellings.dtype)] * spellings.shape[1])
    _, first, row_of = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    return torch.from_numpy(spellings[first]).long(), torch.from_numpy(row_of.ravel())
