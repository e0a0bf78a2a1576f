"""Translate sentences with a trained model, and export their trees and attention weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.progress import progress
from fairseq_posattn.lab.scoring.attention_maps import (
    attention,
    decoder_attention,
    packed,
    shows_attention,
)
from fairseq_posattn.lab.scoring.generate_log import join_pieces, to_text
from fairseq_posattn.lab.scoring.loaded_model import Loaded
from fairseq_posattn.lab.scoring.metrics.buckets import pieces_of_words
from fairseq_posattn.lab.scoring.requests import ExampleRequest
from fairseq_posattn.trees.conllu import ConlluBlock, parse_all_columns, read_blocks, text_of
from fairseq_posattn.trees.drawing import depths, number_of_words, words_by_counts
from fairseq_posattn.trees.projection import dense, same_text
from fairseq_posattn.trees.sentence import Sentence


class Translator:
    """Translates sentences of a data subset with a loaded model.

    text: a function that converts subword units to text.
    """

    def __init__(
        self, loaded: Loaded, subset: str, text: Callable[[str], str], beam: int, lenpen: float
    ):
        self.models, self.task, self.text = [loaded.model], loaded.task, text
        self.to_device, self.separator = loaded.to_device, loaded.separator
        self.task.load_dataset(subset)
        self.dataset = self.task.dataset(subset)
        options = loaded.cfg.generation
        options.beam, options.lenpen = beam, lenpen
        self.generator = self.task.build_generator(self.models, options)

    def example(self, number: int, given: Sentence | None, reference: str | None) -> dict[str, Any]:
        """Translate one sentence, and return its JSON record.

        given: the same sentence in the user's CoNLL-U file, if there is one.
        reference: the reference translation; None to take it from the data.
        """
        sample = self.sample(number)
        pieces = self.pieces(sample)
        own = self.words(sample, pieces)
        if given is not None:
            self.check(given, own, pieces, number)
        shown = given or own
        # the best hypothesis, including the end-of-sentence token
        best = self.task.inference_step(self.generator, self.models, sample)[0][0]["tokens"]
        if reference is None and sample.get("target") is not None:
            reference = self.target_text(sample["target"][0])
        return {
            "number": number,
            **({"text": shown.text} if shown.text else {}),
            "words": shown.words,
            "parents": shown.parents,
            "depths": None if shown.parents is None else depths(shown.parents),
            "relations": shown.relations,
            "pieces": pieces,
            "translation": self.target_text(best),
            "reference": reference,
            "attention": packed(attention(self.models[0], sample)),
            **self.decoder_maps(sample, best),
        }

    def sample(self, number: int) -> dict:
        """Return a batch that contains one sentence and therefore no padding."""
        return self.to_device(self.dataset.collater([self.dataset[number]]))

    def pieces(self, sample: dict) -> list[str]:
        """Return the source pieces, including the end-of-sentence token."""
        dictionary = self.task.source_dictionary
        return [dictionary[k] for k in sample["net_input"]["src_tokens"][0].tolist()]

    def words(self, sample: dict, pieces: Sequence[str]) -> Sentence:
        """Return the source words, with their tree if the data contain one."""
        tree = tree_in(sample)
        if tree is None:
            return Sentence(join_pieces(" ".join(pieces[:-1]), self.separator).split())
        parents, counts = tree
        return Sentence(words_by_counts(pieces, counts, self.separator), parents)

    def counts(self, sample: dict, pieces: Sequence[str]) -> list[int]:
        tree = tree_in(sample)
        return pieces_of_words(pieces[:-1], self.separator) if tree is None else tree[1]

    def check(self, given: Sentence, own: Sentence, pieces: Sequence[str], number: int) -> None:
        """Raise an InputError if a given sentence or its tree differs from the data."""
        unknown = self.task.source_dictionary.unk_word in pieces
        spelled = dense(join_pieces(" ".join(pieces[:-1]), self.separator))
        if own.parents is None and not (unknown or same_text(str(given), spelled)):
            raise InputError(
                f"{given.where}: sentence {number} is '{given}' here, but '{spelled}' in the data; "
                "use the CoNLL-U file of this subset"
            )
        if own.parents and given.parents and given.parents != own.parents:
            raise InputError(
                f"{given.where}: the tree of sentence {number} differs from that in the data; use "
                "the CoNLL-U file that the data were made from"
            )

    def decoder_maps(self, sample: dict, tokens: torch.Tensor) -> dict[str, Any]:
        """Return the target pieces, and the decoder's attention weights during their generation.

        The result is empty if the decoder has no attention.
        """
        if not shows_attention(self.models[0].decoder, "self_attn", "encoder_attn"):
            return {}
        dictionary = self.task.target_dictionary
        own, crossing = decoder_attention(self.models[0], sample, tokens)
        return {
            "target_pieces": [dictionary[k] for k in tokens.tolist()],
            "decoder_attention": packed(own),
            "cross_attention": packed(crossing),
        }

    def target_text(self, tokens: torch.Tensor) -> str:
        return self.text(self.task.target_dictionary.string(tokens.int().cpu()))


def tree_in(sample: dict) -> tuple[list[int], list[int]] | None:
    """Return the parent and the number of pieces of each word in the first sentence of a batch.

    Returns None if the batch contains no trees.
    """
    tree = sample["net_input"].get("source_tree")
    if tree is None:
        return None
    parents, counts = (rows[0].tolist() for rows in tree[:2])
    length = number_of_words(parents, counts)
    return parents[:length], counts[:length]


def examples(request: ExampleRequest) -> list[dict[str, Any]]:
    """Translate the requested sentences, and return their JSON records in the requested order."""
    loaded, data, numbers = request.load(), request.data, request.sentences
    text = to_text(data, loaded.separator, None)
    translator = Translator(loaded, request.gen_subset, text, request.beam, request.lenpen)
    check_numbers(numbers, len(translator.dataset), f"{data}: {request.gen_subset}")
    given = read_trees(request.trees, numbers) if request.trees else {}
    targets = read_references(request.references, numbers) if request.references else {}
    return [
        translator.example(number, given.get(number), targets.get(number))
        for number in progress(numbers)
    ]


def check_numbers(numbers: Sequence[int], count: int, name: str) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise InputError(
                f"{name} has {count:,} sentences, but none with the number {number}; "
                f"choose from 0 to {count - 1}, as in S-{count - 1}"
            )


def read_references(path: str, numbers: Sequence[int]) -> dict[int, str]:
    lines = list(read_lines(path))
    check_numbers(numbers, len(lines), path)
    return {number: lines[number] for number in numbers}


def read_trees(path: str, numbers: Sequence[int]) -> dict[int, Sentence]:
    """Read the sentences with the given numbers from a CoNLL-U file."""
    blocks = list(read_blocks(path))
    check_numbers(numbers, len(blocks), path)
    return {number: with_relations(blocks[number]) for number in numbers}


def with_relations(block: ConlluBlock) -> Sentence:
    """Parse a sentence and its original text; set `relations` to None if all of them are `_`."""
    sentence = parse_all_columns(block)
    sentence.text = text_of(block)
    if set(sentence.relations or ()) <= {"_"}:
        sentence.relations = None
    return sentence
