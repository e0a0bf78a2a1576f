"""Batches of transformers with trees, which a tokenizer's pieces are aligned with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from fairseq_posattn.core.source_tree import PADDING
from fairseq_posattn.doors.attention_interface import TREE
from fairseq_posattn.errors import InputError
from fairseq_posattn.text.live.segmented import spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees.projection import Span, checked_parents, dense, project_line
from fairseq_posattn.trees.sentence import Sentence


def encode(tokenizer: Any, sentence: Sentence, **options: Any) -> dict[str, Any]:
    """Return what a tokenizer makes of a sentence, with its tree as `source_tree`."""
    text = sentence.text or " ".join(sentence.tokens)
    fast = {"return_offsets_mapping": True} if tokenizer.is_fast else {}
    found = dict(tokenizer(text, return_special_tokens_mask=True, **fast, **options))
    special = found.pop("special_tokens_mask")
    if not any(special):
        raise InputError(
            f"'{text}': the tokenizer marks no end of the sentence, which models with trees read; "
            "let it add its special pieces"
        )
    if tokenizer.is_fast:
        before = [0, *accumulate(len(dense(character)) for character in text)]
        places = found.pop("offset_mapping")
        spans: Sequence[Span] = [
            (before[begin], before[end])
            for (begin, end), one in zip(places, special, strict=True)
            if not one
        ]
    else:  # pieces of sentencepiece spell their text
        pieces = tokenizer.convert_ids_to_tokens(found["input_ids"])
        kept = [piece for piece, one in zip(pieces, special, strict=True) if not one]
        spans = spelled(" ".join(kept), SPACE).spans
    where = f"'{text}'"
    counts = project_line(sentence, text, spans, where)
    of_pieces = iter([word for word, count in enumerate(counts) for _ in range(count)])
    words = [len(counts) if one else next(of_pieces) for one in special]
    parents = checked_parents(sentence, where)
    own = [word if parent == 0 else parent - 1 for word, parent in enumerate(parents)]
    return {**found, TREE: [words, own]}


class TreeCollator:
    """A collator of transformers, with the trees of `encode` beside what it makes of a batch."""

    def __init__(self, collator: Any):
        self.collator = collator

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> Any:
        trees = [feature[TREE] for feature in features]
        plain = [{k: v for k, v in one.items() if k != TREE} for one in features]
        batch = self.collator(plain)
        real = batch["attention_mask"].bool()
        width = max(real.size(1), *(len(parents) for _, parents in trees))
        table = torch.arange(width).repeat(len(trees), 2, 1)
        table[:, 0] = PADDING
        for row, (words, parents) in enumerate(trees):
            table[row, 0, : real.size(1)][real[row]] = torch.tensor(words)
            table[row, 1, : len(parents)] = torch.tensor(parents)
        batch[TREE] = table
        return batch
