"""A translated sentence with its tree and its attention, as the files of examples hold it."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from math import prod

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.json_values import Number, Text, Whole
from fairseq_posattn.io.files import read_json_value
from fairseq_posattn.io.records import ABSENT, Open, about, as_record
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.drawing import depths

AGAIN = "make it again with posattn-examples"


@dataclass(frozen=True, kw_only=True)
class Attention(Open):
    """Attention weights of an encoder for one sentence."""

    layers: Whole = field(metadata=about("layers of the encoder"))
    heads: Whole = field(metadata=about("attention heads of a layer"))
    queries: Whole = field(metadata=about("pieces that attend"))
    keys: Whole = field(metadata=about("pieces that are attended to"))
    weights: Text = field(
        metadata=about("bytes in base64, layers × heads × queries × keys: 255 is 1, or `largest`")
    )
    largest: Number = field(
        default=ABSENT, metadata=about("the largest weight, where some weight is above 1")
    )

    @property
    def sizes(self) -> list[int]:
        return [self.layers, self.heads, self.queries, self.keys]


@dataclass(frozen=True, kw_only=True)
class Example(Open):
    """A translated sentence."""

    number: Whole = field(
        metadata=about("the sentence, counted from 0, as in S-NUMBER of fairseq-generate")
    )
    words: list[Text] = field(metadata=about("words of the source"))
    parents: list[Whole] | None = field(
        metadata=about("parent of each word, counted from 1, the root's is 0; null: no tree")
    )
    depths: list[Whole] | None = field(
        default=ABSENT, metadata=about("edges from each word up to the root")
    )
    relations: list[Text] | None = field(
        default=ABSENT, metadata=about("dependency relation of each word")
    )
    pieces: list[Text] = field(metadata=about("pieces of the source, with the end of the sentence"))
    translation: Text = field(metadata=about("what the model makes of it"))
    reference: Text | None = field(default=ABSENT, metadata=about("what it should be"))
    attention: Attention = field(metadata=about("attention of the encoder"))

    def __post_init__(self) -> None:
        if fault := self.fault_of_tree() or self.fault_of_attention():
            raise InputError(fault)

    def fault_of_tree(self) -> str | None:
        for key in ("parents", "depths", "relations"):
            values = getattr(self, key)
            if isinstance(values, list) and len(values) != len(self.words):
                return f"{len(values)} {key} for {len(self.words)} words"
        if self.parents is None:
            return None
        if fault := tree_fault(self.parents):
            return fault.what
        if isinstance(self.depths, list) and self.depths != depths(self.parents):
            return "the depths are not those of the tree"
        return None

    def fault_of_attention(self) -> str | None:
        sizes, pieces = self.attention.sizes, len(self.pieces)
        if min(sizes) < 1 or sizes[2:] != [pieces, pieces]:
            return f"attention of {' x '.join(map(str, sizes))} for {pieces} pieces"
        try:
            weights = base64.b64decode(self.attention.weights, validate=True)
        except (binascii.Error, ValueError):
            return "the weights are not base64"
        if len(weights) != prod(sizes):
            return f"{len(weights)} weights instead of {prod(sizes)}"
        return None


@dataclass(frozen=True, kw_only=True)
class Examples(Open):
    """What holds examples under a name, as the JSON of a scored system does."""

    examples: list[Example] = field(metadata=about("translated sentences"))


def read_examples(path: str) -> list[Example]:
    """Return the examples in a file of posattn-examples, or in the JSON of a scored system."""
    found = read_json_value(path, AGAIN)
    if isinstance(found, dict):
        found = found.get("examples")
    if not isinstance(found, list):
        raise InputError(f"{path}: no list of examples; make it with posattn-examples")
    return as_record(Examples, {"examples": found}, path, AGAIN).examples
