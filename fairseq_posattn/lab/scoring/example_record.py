"""The file format of posattn examples: translated sentences with trees and attention weights."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from math import prod

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_json_value
from fairseq_posattn.io.records import ABSENT, Open, as_record
from fairseq_posattn.lab.scoring.json_values import Number, Text, Whole, has, may_have
from fairseq_posattn.trees.checks import tree_fault
from fairseq_posattn.trees.drawing import depths

AGAIN = "make it again with posattn examples"


@dataclass(frozen=True, kw_only=True)
class Attention(Open):
    """Attention weights of a sentence."""

    layers: Whole = has("the number of layers")
    heads: Whole = has("heads per layer")
    queries: Whole = has("attending pieces")
    keys: Whole = has("attended pieces")
    weights: Text = has(
        "bytes in base64, layers × heads × queries × keys; 255 represents 1, or `largest`"
    )
    largest: Number = may_have("the largest weight, if above 1")

    @property
    def sizes(self) -> list[int]:
        return [self.layers, self.heads, self.queries, self.keys]


@dataclass(frozen=True, kw_only=True)
class Example(Open):
    """A translated sentence with its tree and attention weights."""

    number: Whole = has("S-NUMBER of fairseq-generate, from 0")
    text: Text = may_have("the original source text")
    words: list[Text] = has("the source words")
    parents: list[Whole] | None = has(
        "parents of the words, counted from 1; 0: root; null: no tree"
    )
    depths: list[Whole] | None = may_have("edges from each word to the root")
    relations: list[Text] | None = may_have("dependency relations of the words")
    pieces: list[Text] = has("the source pieces, with end of sentence")
    translation: Text = has("the output of the model")
    reference: Text | None = may_have("the reference translation")
    attention: Attention = has("the self-attention of the encoder")
    target_pieces: list[Text] = may_have("the target pieces, with end of sentence")
    decoder_attention: Attention = may_have("the self-attention that predicts each target piece")
    cross_attention: Attention = may_have("the cross-attention of the decoder")

    def __post_init__(self) -> None:
        if fault := self.fault_of_tree() or self.fault_of_attention():
            raise InputError(fault)

    def fault_of_tree(self) -> str | None:
        """Describe the error in the tree; return None if the tree is valid."""
        for key in ("parents", "depths", "relations"):
            values = getattr(self, key)
            if isinstance(values, list) and len(values) != len(self.words):
                return f"found {len(values)} {key} for {len(self.words)} words"
        if self.parents is None:
            return None
        if fault := tree_fault(self.parents):
            return fault.what
        if isinstance(self.depths, list) and self.depths != depths(self.parents):
            return "the depths differ from those in the tree"
        return None

    def fault_of_attention(self) -> str | None:
        """Describe the error in the attention weights; return None if they are valid."""
        source = len(self.pieces)
        target = 0 if self.target_pieces is ABSENT else len(self.target_pieces)
        maps = [("attention", source, source)]
        maps += [("decoder_attention", target, target), ("cross_attention", target, source)]
        for name, queries, keys in maps:
            found = getattr(self, name)
            if found is not ABSENT and (fault := fault_of(found, queries, keys)):
                return fault if name == "attention" else f"{name}: {fault}"
        return None


def fault_of(attention: Attention, queries: int, keys: int) -> str | None:
    """Describe the error in the weights of an attention module; return None if they are valid.

    queries, keys: the expected numbers of queries and keys.
    """
    sizes = attention.sizes
    if min(sizes) < 1 or sizes[2:] != [queries, keys]:
        pieces = f"{queries} pieces" if queries == keys else f"{queries} and {keys} pieces"
        return f"the attention has the shape {' x '.join(map(str, sizes))}, but there are {pieces}"
    try:
        weights = base64.b64decode(attention.weights, validate=True)
    except (binascii.Error, ValueError):
        return "the weights are not base64"
    if len(weights) != prod(sizes):
        return f"found {len(weights)} weights, expected {prod(sizes)}"
    return None


@dataclass(frozen=True, kw_only=True)
class Examples(Open):
    """A document that contains examples, such as the JSON of a scored system."""

    examples: list[Example] = has("the translated sentences")


def read_examples(path: str) -> list[Example]:
    """Read examples from a file of posattn examples, or from the JSON of a scored system."""
    found = read_json_value(path, AGAIN)
    if isinstance(found, dict):
        found = found.get("examples")
    if not isinstance(found, list):
        raise InputError(f"{path}: no list of examples found; make the file with posattn examples")
    return as_record(Examples, {"examples": found}, path, AGAIN).examples
