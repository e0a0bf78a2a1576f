"""Translated sentences with their trees and the encoder's attention, from a trained model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.evaluation.attention_maps import attention, packed
from fairseq_posattn.evaluation.fairseq_logs.generate_log import join_pieces, to_text
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.progress import progress
from fairseq_posattn.trees.alignment import dense
from fairseq_posattn.trees.conllu import ConlluBlock, parse_all_columns, read_blocks
from fairseq_posattn.trees.drawing import depths, number_of_words, words_by_counts
from fairseq_posattn.trees.projection import SEPARATOR
from fairseq_posattn.trees.sentence import Sentence


def fields(sentence: Sentence) -> dict[str, Any]:
    """What an example says of its words; without a tree, nothing but them."""
    parents = sentence.parents
    return {
        "words": sentence.words,
        "parents": parents,
        "depths": None if parents is None else depths(parents),
        "relations": sentence.relations,
    }


class Translator:
    """A loaded model, and the sentences of one subset of the data."""

    def __init__(self, hub, subset: str, text: Callable[[str], str], beam: int, lenpen: float):
        self.models, self.task, self.text = list(hub.models), hub.task, text
        self.task.load_dataset(subset)
        self.dataset = self.task.dataset(subset)
        options = hub.cfg.generation
        options.beam, options.lenpen = beam, lenpen
        self.generator = self.task.build_generator(self.models, options)

    def example(self, number: int, given: Sentence | None, reference: str | None) -> dict[str, Any]:
        """Everything about one sentence, which is alone in its batch: nothing is padded."""
        sample = self.dataset.collater([self.dataset[number]])
        pieces = self.pieces(sample)
        own = self.words(sample, pieces)
        if given is not None:
            self.check(given, own, pieces, number)
        return {
            "number": number,
            **fields(given or own),
            "pieces": pieces,
            "translation": self.translation(sample),
            "reference": self.reference(sample) if reference is None else reference,
            "attention": packed(attention(self.models[0], sample)),
        }

    def pieces(self, sample: dict) -> list[str]:
        """With the end of the sentence, which attends and is attended to."""
        dictionary = self.task.source_dictionary
        return [dictionary[k] for k in sample["net_input"]["src_tokens"][0].tolist()]

    def words(self, sample: dict, pieces: Sequence[str]) -> Sentence:
        """Those of the tree beside the data; without it those that the pieces spell."""
        tree = sample["net_input"].get("source_tree")
        if tree is None:
            return Sentence(join_pieces(" ".join(pieces[:-1]), self.separator).split())
        parents, counts = (rows[0].tolist() for rows in tree)
        length = number_of_words(parents, counts)
        return Sentence(words_by_counts(pieces, counts[:length], self.separator), parents[:length])

    @property
    def separator(self) -> str:
        return self.task.separator() if hasattr(self.task, "separator") else SEPARATOR

    def check(self, given: Sentence, own: Sentence, pieces: Sequence[str], number: int) -> None:
        """A file of other sentences would show a wrong tree without a word."""
        unknown = self.task.source_dictionary.unk_word in pieces
        spelled = dense(join_pieces(" ".join(pieces[:-1]), self.separator))
        same_text = dense(str(given)) == spelled
        if own.parents is None and not (unknown or same_text):
            raise InputError(
                f"{given.where}: sentence {number} is '{given}' here and '{spelled}' in the "
                "data; give the CoNLL-U file of this subset"
            )
        if own.parents and given.parents and given.parents != own.parents:
            raise InputError(
                f"{given.where}: the tree of sentence {number} is not that beside the data; "
                "give the CoNLL-U file that the data were made from"
            )

    def translation(self, sample: dict) -> str:
        """The best of the beam."""
        best = self.task.inference_step(self.generator, self.models, sample)[0][0]
        return self.target_text(best["tokens"])

    def reference(self, sample: dict) -> str | None:
        return None if sample.get("target") is None else self.target_text(sample["target"][0])

    def target_text(self, tokens: torch.Tensor) -> str:
        return self.text(self.task.target_dictionary.string(tokens.int().cpu()))


def load(checkpoint: Path, data: str):
    """The checkpoint with its task, on the CPU; both must belong together."""
    from fairseq_posattn import plugin  # noqa: F401
    from fairseq_posattn.glue.models.posattn_transformer import PosattnTransformerModel

    if not Path(data).is_dir():
        raise InputError(f"{data}: no such folder; name that of the binarised data")
    if not checkpoint.is_file():
        raise InputError(f"{checkpoint}: no such checkpoint; name the file (.pt)")
    folder = str(Path(data).resolve())  # fairseq takes ./DATA for a folder beside the checkpoint
    try:
        hub = PosattnTransformerModel.from_pretrained(
            str(checkpoint.parent), checkpoint.name, folder, cpu=True
        )
    except (RuntimeError, AssertionError) as error:
        what = " ".join(str(error).split())
        raise InputError(
            f"{checkpoint}: cannot be loaded with {data} ({what[:200]}); "
            "give the data that the model was trained with"
        ) from error
    return hub.eval()


def examples(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The chosen sentences, in the order of the command line."""
    hub = load(options.path, options.data)
    separator = hub.task.separator() if hasattr(hub.task, "separator") else SEPARATOR
    text = to_text(options.data, separator, None)
    translator = Translator(hub, options.gen_subset, text, options.beam, options.lenpen)
    numbers = options.sentences
    name = f"{options.data}: {options.gen_subset}"
    check_numbers(numbers, len(translator.dataset), name)
    trees = read_trees(options.trees, numbers) if options.trees else {}
    references = read_references(options.references, numbers) if options.references else {}
    return [
        translator.example(number, trees.get(number), references.get(number))
        for number in progress(numbers)
    ]


def check_numbers(numbers: Sequence[int], count: int, name: str) -> None:
    for number in numbers:
        if not 0 <= number < count:
            raise InputError(
                f"{name} has {count:,} sentences, none of the number {number}; "
                f"they are counted from 0 to {count - 1}, as in S-{count - 1}"
            )


def read_references(path: str, numbers: Sequence[int]) -> dict[int, str]:
    lines = list(read_lines(path))
    check_numbers(numbers, len(lines), path)
    return {number: lines[number] for number in numbers}


def read_trees(path: str, numbers: Sequence[int]) -> dict[int, Sentence]:
    """Words, tree and relations of these sentences of a CoNLL-U file."""
    blocks = list(read_blocks(path))
    check_numbers(numbers, len(blocks), path)
    return {number: with_relations(blocks[number]) for number in numbers}


def with_relations(block: ConlluBlock) -> Sentence:
    """The sentence of a block; its relations only if it names any."""
    sentence = parse_all_columns(block)
    if set(sentence.relations or ()) <= {"_"}:
        sentence.relations = None
    return sentence
