"""The sentence that a picture is about, with its tree if it has one."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import torch

from fairseq_posattn.core.attention import AttentionContext
from fairseq_posattn.core.attention.brackets import CLOSING, OPENING, depths
from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.errors import InputError
from fairseq_posattn.io.visible import visible
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, text_of
from fairseq_posattn.trees.sentence import UNKNOWN, Sentence

END = "</s>"  # the end of the sentence attends and is attended to, as in a model
LONGEST = 100  # words; more cannot be read in a picture
BUILT_IN = Sentence(
    ["the", "cat", "that", "we", "saw", "sleeps", "on", "the", "mat"],
    [2, 6, 5, 5, 2, 0, 9, 9, 6],
    relations=["det", "nsubj", "obj", "nsubj", "acl:relcl", "root", "case", "det", "obl"],
)


def sentence_of_text(text: str) -> Sentence:
    """Return the words of a text, which stand between spaces; they have no tree."""
    return checked(Sentence(text.split()), "--sentence")


def sentence_of_file(path: str, number: int) -> tuple[str, Sentence]:
    """Return a sentence of a CoNLL-U file, counted from 0: its raw text and its relations."""
    block = next(islice(read_blocks(path), number, None), None)
    if block is None:
        count = sum(1 for _ in read_blocks(path))
        raise InputError(
            f"{path}: has {count:,} sentences, none of the number {number}; "
            "--number counts from 0, the first sentence"
        )
    sentence = parse_all_columns(block, several_roots="first")
    return text_of(block) or str(sentence), checked(sentence, sentence.where)


def checked(sentence: Sentence, where: str) -> Sentence:
    """Return the sentence with words that can be seen, or refuse one that cannot be drawn."""
    if not 1 <= len(sentence.words) <= LONGEST:
        raise InputError(
            f"{where}: the sentence has {len(sentence.words)} words; "
            f"a picture takes 1 to {LONGEST}: give another sentence"
        )
    return replace(sentence, words=[visible(word) for word in sentence.words])


def context(sentence: Sentence) -> AttentionContext:
    """Return the sentence as attention sees it, each word one piece and the end after them."""
    pieces = [*sentence.words, END]
    of_kind = [torch.tensor([[piece == kind for piece in pieces]]) for kind in (OPENING, CLOSING)]
    ctx = AttentionContext(len(pieces), torch.device("cpu"), brackets=depths(*of_kind))
    if sentence.parents is None:
        return ctx
    parents = [(parent or word) - 1 for word, parent in enumerate(sentence.parents, start=1)]
    relations = sentence.relations or [UNKNOWN] * len(sentence.words)
    known = list(dict.fromkeys(relations))
    numbers = [UNKNOWN_LABEL + known.index(relation) for relation in relations]
    labels = torch.tensor([numbers] * 2)[:, None]  # tags are not drawn
    ctx.tree = SourceTree(
        torch.arange(ctx.length)[None], torch.tensor(parents)[None], labels=labels
    )
    return ctx
