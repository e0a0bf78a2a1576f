"""Align trees with the pieces of Hugging Face tokenizers, and collate them into batches."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch

from fairseq_posattn.core.source_tree import PADDING
from fairseq_posattn.errors import InputError
from fairseq_posattn.integrations.attention_interface import TREE
from fairseq_posattn.text.live.segmented import spelled
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees.checks import checked_tree
from fairseq_posattn.trees.projection import Span, checked_parents, dense, project_line
from fairseq_posattn.trees.sentence import Sentence

# Tokenizer options that would break the alignment of pieces and words, grouped by remedy.
REFUSED = {
    "leave it out, as the collator pads batches": ("padding", "pad_to_multiple_of"),
    "leave it out, as the collator creates tensors": ("return_tensors",),
    "call encode once for each sentence": (
        *("text", "text_pair", "text_target", "text_pair_target", "is_split_into_words"),
        *("return_overflowing_tokens", "stride"),
    ),
    "leave it out, as encode sets it": ("return_offsets_mapping", "return_special_tokens_mask"),
}


def encode(tokenizer: Any, sentence: Sentence, **options: Any) -> dict[str, Any]:
    """Tokenise a sentence, and align its tree with the pieces.

        encode(tokenizer, Sentence(["She", "saw", "him"], [2, 0, 2]), truncation=True)

    options: keyword arguments passed to the tokenizer, for example `truncation` and `max_length`.

    Return the output of the tokenizer, to which the aligned tree is added as `source_tree`. Raise
    an InputError for an option that `encode` does not accept, and for a sentence whose tree is
    missing or invalid.
    """
    for remedy, names in REFUSED.items():
        for name in names:
            if options.get(name):
                raise InputError(
                    f"encode does not accept the option {name}={options[name]!r}; {remedy}"
                )
    text = sentence.text or " ".join(sentence.tokens)
    fast = {"return_offsets_mapping": True} if tokenizer.is_fast else {}
    found = dict(tokenizer(text, return_special_tokens_mask=True, **fast, **options))
    special = found.pop("special_tokens_mask")
    if not any(special):
        raise InputError(
            f"'{text}': the tokenizer adds no end-of-sentence symbol, which models with trees "
            "need; let it add its special tokens"
        )
    if tokenizer.is_fast:
        before = [0, *accumulate(len(dense(character)) for character in text)]
        places = found.pop("offset_mapping")
        spans: Sequence[Span] = [
            (before[begin], before[end])
            for (begin, end), one in zip(places, special, strict=True)
            if not one
        ]
    else:  # slow tokenizers return no offsets, but sentencepiece pieces contain the text
        pieces = tokenizer.convert_ids_to_tokens(found["input_ids"])
        kept = [piece for piece, one in zip(pieces, special, strict=True) if not one]
        spans = spelled(" ".join(kept), SPACE).spans
    where = f"'{text}'"
    parents = checked_tree(checked_parents(sentence, where), where)
    counts = project_line(sentence, text, spans, where)
    of_pieces = iter([word for word, count in enumerate(counts) for _ in range(count)])
    words = [len(counts) if one else next(of_pieces) for one in special]
    own = [word if parent == 0 else parent - 1 for word, parent in enumerate(parents)]
    return {**found, TREE: [words, own]}


class TreeCollator:
    """Wraps a Hugging Face data collator, and adds the trees created by `encode` to its batches.

    collator = TreeCollator(DataCollatorForSeq2Seq(tokenizer, model))
    """

    def __init__(self, collator: Any):
        self.collator = collator

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> Any:
        if lacking := [k for k, feature in enumerate(features) if TREE not in feature]:
            raise InputError(
                f"sentence {lacking[0]} of the batch has no {TREE}; create it with encode(...)"
            )
        trees = [feature[TREE] for feature in features]
        plain = [{k: v for k, v in one.items() if k != TREE} for one in features]
        batch = self.collator(plain)
        if "attention_mask" not in batch:
            raise InputError("the batch has no attention_mask; let the tokenizer return one")
        real = batch["attention_mask"].bool()
        width = max(real.size(1), *(len(parents) for _, parents in trees))
        table = torch.arange(width).repeat(len(trees), 2, 1)
        table[:, 0] = PADDING
        for row, (words, parents) in enumerate(trees):
            if len(words) != real[row].sum():
                raise InputError(
                    f"sentence {row} of the batch has {int(real[row].sum())} pieces, but its "
                    f"{TREE} has {len(words)}; create both in the same call to encode"
                )
            table[row, 0, : real.size(1)][real[row]] = torch.tensor(words)
            table[row, 1, : len(parents)] = torch.tensor(parents)
        batch[TREE] = table
        return batch
