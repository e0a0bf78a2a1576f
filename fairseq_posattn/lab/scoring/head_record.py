"""The file format of posattn heads: statistics of each attention head on a test set."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import Open, read_record
from fairseq_posattn.lab.scoring.json_values import Number, Text, Whole, has, may_have

AGAIN = "make it again with posattn heads"


@dataclass(frozen=True, kw_only=True)
class Head(Open):
    """Statistics of one head of the encoder, averaged over the test set."""

    layer: Whole = has("the layer, from 0")
    head: Whole = has("the head, from 0")
    entropy: Number = has("the entropy of its weights, in nats")
    distance: Number = has("the mean distance in pieces, weighted by attention")
    tree_edges: Number | None = may_have(
        "the share of words that attend most to their parent or a child, among the other words"
    )


@dataclass(frozen=True, kw_only=True)
class LearntNumber(Open):
    """Values that a mechanism has learnt, or the means of the values that it predicts."""

    place: Text = has("the module, such as encoder.layers.0.self_attn")
    mechanism: Text = has("its name")
    name: Text = has("the meaning of the numbers")
    heads: list[Whole] = has("the heads they belong to; empty: one number per layer")
    values: list[Number] = has("one number for each of these heads")

    def __post_init__(self) -> None:
        if len(self.values) != max(1, len(self.heads)):
            raise InputError(f"there are {len(self.values)} values for {len(self.heads)} heads")


@dataclass(frozen=True, kw_only=True)
class Heads(Open):
    """The statistics of all heads of a model on a test set."""

    sentences: Whole = has("the number of sentences")
    words: Whole = may_have("the number of words with trees")
    neighbours: Number | None = may_have(
        "`tree_edges` of a head that always attends to the previous word; null without trees"
    )
    heads: list[Head] = has("each head of each layer")
    numbers: list[LearntNumber] = may_have("what the mechanisms have learnt")

    def __post_init__(self) -> None:
        found = {(head.layer, head.head) for head in self.heads}
        layers, heads = (max((pair[k] + 1 for pair in found), default=0) for k in (0, 1))
        if not found or len(found) != len(self.heads) or layers * heads != len(found):
            raise InputError("there must be each head of each layer once")


def read_heads(path: str) -> Heads:
    """Read a file written by posattn heads."""
    return read_record(Heads, path, AGAIN)
