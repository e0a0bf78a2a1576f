"""The labels of a word are the name of its relation to its parent, and its part of speech.

Both are those of Universal Dependencies. A relation may have a subtype after a colon: acl:relcl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairseq_posattn.trees.sentence import Sentence
from fairseq_posattn.trees.whitespace import escape_whitespace

UNKNOWN = "_"
KINDS = ("relations", "tags")


class Labels(NamedTuple):
    """These are the labels of the words of a sentence.

    relations: the name of the relation of each word to its parent, such as nsubj, or `_`.
    tags: the universal part of speech of each word, such as NOUN, or `_`.
    """

    relations: Sequence[str]
    tags: Sequence[str]


class Tree(NamedTuple):
    """A tree of pieces has, for each word, its parent and the number of its pieces.

    labels: the labels of the words, where they are known.
    """

    parents: Sequence[int]
    pieces: Sequence[int]
    labels: Labels | None = None


def labels_of(sentence: Sentence) -> Labels:
    """Return the labels of a sentence as text files spell them, with `_` where one is unknown."""
    relations, tags = unknown(len(sentence.words))
    if sentence.relations is not None:
        relations = [plain(relation) for relation in sentence.relations]
    if sentence.tags is not None:
        tags = [plain(tag.upos) for tag in sentence.tags]
    return Labels(relations, tags)


def unknown(words: int) -> Labels:
    return Labels([UNKNOWN] * words, [UNKNOWN] * words)


def plain(label: str) -> str:
    """Return a label that can stand between spaces; an empty one is unknown."""
    return escape_whitespace(label) or UNKNOWN


def without_subtype(relation: str) -> str:
    """Return the universal part of a relation, acl of acl:relcl; nothing before it is unknown."""
    return relation.partition(":")[0] or UNKNOWN
