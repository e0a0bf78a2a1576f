"""Provide the sentence of a picture, or the sentences of a data subset as a model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import torch

from fairseq_posattn.core.attention import AttentionContext
from fairseq_posattn.core.attention.brackets import CLOSING, OPENING, depths
from fairseq_posattn.core.positions import SourceTree
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.inspection.model import Loaded
from fairseq_posattn.scoring.generate_log import join_pieces
from fairseq_posattn.scoring.metrics.buckets import pieces_of_words
from fairseq_posattn.trees.conllu import parse_all_columns, read_blocks, text_of
from fairseq_posattn.trees.drawing import number_of_words, words_by_counts
from fairseq_posattn.trees.projection import dense, same_text
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


class Subset:
    """The sentences of a data subset."""

    def __init__(self, loaded: Loaded, name: str):
        self.loaded = loaded
        loaded.task.load_dataset(name)
        self.dataset = loaded.task.dataset(name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> SourceSentence:
        sample = self.loaded.to_device(self.dataset.collater([self.dataset[number]]))
        return SourceSentence(self.loaded, number, sample)


class SourceSentence:
    """A sentence of a data subset.

    sample: a batch that contains only this sentence, and therefore no padding.
    pieces: the source pieces, including the end-of-sentence token.
    spelled: the pieces, joined into text.
    words: the source words, with their tree if the data contain one.
    counts: the number of pieces of each word.
    """

    def __init__(self, loaded: Loaded, number: int, sample: dict):
        self.loaded, self.number, self.sample = loaded, number, sample
        dictionary, separator = loaded.task.source_dictionary, loaded.separator
        self.pieces = [dictionary[k] for k in sample["net_input"]["src_tokens"][0].tolist()]
        self.spelled = join_pieces(" ".join(self.pieces[:-1]), separator)
        tree = sample["net_input"].get("source_tree")
        if tree is None:
            self.words = Sentence(self.spelled.split())
            self.counts = pieces_of_words(self.pieces[:-1], separator)
        else:
            parents, counts = (rows[0].tolist() for rows in tree[:2])
            length = number_of_words(parents, counts)
            self.counts = counts[:length]
            words = words_by_counts(self.pieces, self.counts, separator)
            self.words = Sentence(words, parents[:length])

    def check(self, given: Sentence) -> None:
        """Raise an InputError if the same sentence in a user's file has a different text.

        A text with unknown words, or with a tree in the data, is not compared.
        """
        unknown = self.loaded.task.source_dictionary.unk_word in self.pieces
        spelled = dense(self.spelled)
        if self.words.parents is None and not (unknown or same_text(str(given), spelled)):
            raise InputError(
                f"{given.where}: sentence {self.number} is '{given}' here, but '{spelled}' in the "
                "data; use the CoNLL-U file of this subset"
            )


def read_trees(path: str, numbers: Sequence[int]) -> dict[int, Sentence]:
    """Read the sentences with the given numbers, and their original text, from a CoNLL-U file."""
    blocks = list(read_blocks(path))
    check_numbers(numbers, len(blocks), path)
    found = {}
    for number in numbers:
        found[number] = sentence = parse_all_columns(blocks[number])
        sentence.text = text_of(blocks[number])
        if set(sentence.relations or ()) <= {"_"}:
            sentence.relations = None
    return found


def check_numbers(numbers: Sequence[int], count: int, name: str) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise InputError(
                f"{name} has {count:,} sentences, but none with the number {number}; "
                f"choose from 0 to {count - 1}, as in fairseq's S-{count - 1}"
            )
