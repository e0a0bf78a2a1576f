"""The file formats of posattn examples and posattn heads.

Examples are translated sentences with trees and attention weights. Statistics of attention
heads are averages over a test set.
"""

import base64
import binascii
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json_value
from fairseq_posattn.files.records import ABSENT, Limit, Open, as_record, option, read_record
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.drawing import depths

LARGEST = 1e15  # far above any score; larger numbers cannot be plotted


def is_number(value: Any) -> bool:
    """Return whether a value is an int or float within ±LARGEST; bool and nan are excluded."""
    return type(value) in (int, float) and -LARGEST <= value <= LARGEST


def is_writable(value: Any) -> bool:
    """Return whether a value is text without unpaired surrogates, which UTF-8 cannot encode."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


Number = Annotated[float, Limit(is_number, "a number")]
Whole = Annotated[int, Limit(lambda n: type(n) is int and is_number(n), "a whole number")]
Text = Annotated[str, Limit(is_writable, "text")]


AGAIN = "make it again with posattn examples"


@dataclass(frozen=True, kw_only=True)
class Attention(Open):
    """Attention weights of a sentence."""

    layers: Whole = option("the number of layers")
    heads: Whole = option("heads per layer")
    queries: Whole = option("attending pieces")
    keys: Whole = option("attended pieces")
    weights: Text = option(
        "bytes in base64, layers × heads × queries × keys; 255 represents 1, or `largest`"
    )
    largest: Number = option("the largest weight, if above 1", ABSENT)

    def check(self, queries: int, keys: int, name: str) -> None:
        """Raise an InputError if the weights are not valid.

        queries, keys: the expected numbers of queries and keys.
        name: prefix of the message.
        """
        sizes = [self.layers, self.heads, self.queries, self.keys]
        if min(sizes) < 1 or sizes[2:] != [queries, keys]:
            shape = " x ".join(map(str, sizes))
            pieces = f"{queries} pieces" if queries == keys else f"{queries} and {keys} pieces"
            raise InputError(f"{name}the attention has the shape {shape}, but there are {pieces}")
        try:
            weights = base64.b64decode(self.weights, validate=True)
        except (binascii.Error, ValueError):
            raise InputError(f"{name}the weights are not base64") from None
        if len(weights) != prod(sizes):
            raise InputError(f"{name}found {len(weights)} weights, expected {prod(sizes)}")


@dataclass(frozen=True, kw_only=True)
class Example(Open):
    """A translated sentence with its tree and attention weights."""

    number: Whole = option("S-NUMBER of fairseq-generate, from 0")
    text: Text = option("the original source text", ABSENT)
    words: list[Text] = option("the source words")
    parents: list[Whole] | None = option(
        "parents of the words, counted from 1; 0: root; null: no tree"
    )
    depths: list[Whole] | None = option("edges from each word to the root", ABSENT)
    relations: list[Text] | None = option("dependency relations of the words", ABSENT)
    pieces: list[Text] = option("the source pieces, with end of sentence")
    translation: Text = option("the output of the model")
    reference: Text | None = option("the reference translation", ABSENT)
    attention: Attention = option("the self-attention of the encoder")
    target_pieces: list[Text] = option("the target pieces, with end of sentence", ABSENT)
    decoder_attention: Attention = option(
        "the self-attention that predicts each target piece", ABSENT
    )
    cross_attention: Attention = option("the cross-attention of the decoder", ABSENT)

    def __post_init__(self) -> None:
        self.check_tree()
        source = len(self.pieces)
        target = 0 if self.target_pieces is ABSENT else len(self.target_pieces)
        self.attention.check(source, source, "")
        if self.decoder_attention is not ABSENT:
            self.decoder_attention.check(target, target, "decoder_attention: ")
        if self.cross_attention is not ABSENT:
            self.cross_attention.check(target, source, "cross_attention: ")

    def check_tree(self) -> None:
        """Raise an InputError if the tree is not valid."""
        for key in ("parents", "depths", "relations"):
            values = getattr(self, key)
            if isinstance(values, list) and len(values) != len(self.words):
                raise InputError(f"found {len(values)} {key} for {len(self.words)} words")
        if self.parents is None:
            return
        if fault := tree_fault(self.parents):
            raise InputError(fault.what)
        if isinstance(self.depths, list) and self.depths != depths(self.parents):
            raise InputError("the depths differ from those in the tree")


@dataclass(frozen=True, kw_only=True)
class Examples(Open):
    """A document that contains examples, such as the JSON of a scored system."""

    examples: list[Example] = option("the translated sentences")


def read_examples(path: str) -> list[Example]:
    """Read examples from a file of posattn examples, or from the JSON of a scored system."""
    found = read_json_value(path, AGAIN)
    if isinstance(found, dict):
        found = found.get("examples")
    if not isinstance(found, list):
        raise InputError(f"{path}: no list of examples found; make the file with posattn examples")
    return as_record(Examples, {"examples": found}, path, AGAIN).examples


@dataclass(frozen=True, kw_only=True)
class Head(Open):
    """Statistics of one head of the encoder, averaged over the test set."""

    layer: Whole = option("the layer, from 0")
    head: Whole = option("the head, from 0")
    entropy: Number = option("the entropy of its weights, in nats")
    distance: Number = option("the mean distance in pieces, weighted by attention")
    tree_edges: Number | None = option(
        "the share of words that, among all other words, attend most to their parent or a child",
        ABSENT,
    )


@dataclass(frozen=True, kw_only=True)
class LearntNumber(Open):
    """Values that a mechanism has learnt, or the means of the values that it predicts."""

    place: Text = option("the module, such as encoder.layers.0.self_attn")
    mechanism: Text = option("its name")
    name: Text = option("the meaning of the numbers")
    heads: list[Whole] = option("the heads they belong to; empty: one number per layer")
    values: list[Number] = option("one number for each of these heads")

    def __post_init__(self) -> None:
        if len(self.values) != max(1, len(self.heads)):
            raise InputError(f"found {len(self.values)} values, expected {max(1, len(self.heads))}")


@dataclass(frozen=True, kw_only=True)
class Heads(Open):
    """The statistics of all heads of a model on a test set."""

    sentences: Whole = option("the number of sentences")
    words: Whole = option("the number of words with trees", ABSENT)
    neighbours: Number | None = option(
        "`tree_edges` of a head that always attends to the previous word; null without trees",
        ABSENT,
    )
    heads: list[Head] = option("each head of each layer")
    numbers: list[LearntNumber] = option("what the mechanisms have learnt", ABSENT)

    def __post_init__(self) -> None:
        found = {(head.layer, head.head) for head in self.heads}
        layers, heads = (max((pair[k] + 1 for pair in found), default=0) for k in (0, 1))
        if not found or len(found) != len(self.heads) or layers * heads != len(found):
            raise InputError("each head of each layer must occur exactly once")


def read_heads(path: str) -> Heads:
    """Read a file written by posattn heads."""
    return read_record(Heads, path, "make it again with posattn heads")
