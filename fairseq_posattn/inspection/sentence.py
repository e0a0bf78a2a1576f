"""Provide the sentence of a picture, which is built-in or read from a text or a CoNLL-U file."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import torch

from fairseq_posattn.core.attention import AttentionContext
from fairseq_posattn.core.attention.brackets import CLOSING, OPENING, depths
from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.visible import visible
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, text_of
from fairseq_posattn.trees.sentence import UNKNOWN, Sentence

END = "</s>"  # added after the last word, as in the input of a model
LONGEST = 100  # words; larger pictures are not legible
BUILT_IN = Sentence(
    ["the", "cat", "that", "we", "saw", "sleeps", "on", "the", "mat"],
    [2, 6, 5, 5, 2, 0, 9, 9, 6],
    relations=["det", "nsubj", "obj", "nsubj", "acl:relcl", "root", "case", "det", "obl"],
)


def sentence_of_text(text: str) -> Sentence:
    """Split a text at whitespace, and return the words as a sentence without a tree."""
    return checked(Sentence(text.split()), "--sentence")


def sentence_of_file(path: str, number: int) -> tuple[str, Sentence]:
    """Return the raw text and the parsed sentence with index `number` (from 0) in a CoNLL-U file.

    Raises InputError if the file contains no such sentence.
    """
    block = next(islice(read_blocks(path), number, None), None)
    if block is None:
        count = sum(1 for _ in read_blocks(path))
        raise InputError(
            f"{path} has {count:,} sentences, so --number {number}, which counts from 0, is too "
            "large"
        )
    sentence = parse_all_columns(block, several_roots="first")
    return text_of(block) or str(sentence), checked(sentence, sentence.where)


def checked(sentence: Sentence, where: str) -> Sentence:
    """Make invisible characters visible; raise an InputError if the length is not supported."""
    if not 1 <= len(sentence.words) <= LONGEST:
        raise InputError(
            f"{where}: the sentence has {len(sentence.words)} words; "
            f"choose a sentence of 1 to {LONGEST} words"
        )
    return replace(sentence, words=[visible(word) for word in sentence.words])


def context(sentence: Sentence) -> AttentionContext:
    """Return the attention context of a sentence, with one piece per word and a final `</s>`."""
    pieces = [*sentence.words, END]
    of_kind = [torch.tensor([[piece == kind for piece in pieces]]) for kind in (OPENING, CLOSING)]
    ctx = AttentionContext(len(pieces), torch.device("cpu"), brackets=depths(*of_kind))
    if sentence.parents is None:
        return ctx
    parents = [(parent or word) - 1 for word, parent in enumerate(sentence.parents, start=1)]
    relations = sentence.relations or [UNKNOWN] * len(sentence.words)
    known = list(dict.fromkeys(relations))
    numbers = [UNKNOWN_LABEL + known.index(relation) for relation in relations]
    labels = torch.tensor([numbers] * 2)[:, None]  # no tags, so relations replace them
    ctx.tree = SourceTree(
        torch.arange(ctx.length)[None], torch.tensor(parents)[None], labels=labels
    )
    return ctx
