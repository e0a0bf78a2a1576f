"""A model and binarised data -> translated sentences with their trees and the encoder's attention.

python -m fairseq_posattn.evaluation.examples DATA --path checkpoint_best.pt --sentences 0 5 17 \\
    --out examples.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fairseq_posattn import command_line
from fairseq_posattn.evaluation.examples_attention import attention, packed
from fairseq_posattn.evaluation.texts import joined, to_text
from fairseq_posattn.files import InputError, read_lines, written_whole
from fairseq_posattn.trees.alignment import dense
from fairseq_posattn.trees.conllu import parse_block, read_blocks
from fairseq_posattn.trees.drawing import depths, number_of_words, words_by_counts
from fairseq_posattn.trees.projection import SEPARATOR

DEPREL = 7  # column of CoNLL-U


@dataclass(frozen=True)
class Words:
    """What an example says of its words; without a tree, nothing but them."""

    words: list[str]
    parents: list[int] | None = None
    relations: list[str] | None = None
    text: str | None = None  # what the words are written as: im, not in and dem
    where: str = ""  # file and line of --trees

    def fields(self) -> dict[str, Any]:
        found = None if self.parents is None else depths(self.parents)
        return {
            "words": self.words,
            "parents": self.parents,
            "depths": found,
            "relations": self.relations,
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

    def example(self, number: int, given: Words | None, reference: str | None) -> dict[str, Any]:
        """Everything about one sentence, which is alone in its batch: nothing is padded."""
        sample = self.dataset.collater([self.dataset[number]])
        pieces = self.pieces(sample)
        own = self.words(sample, pieces)
        if given is not None:
            self.check(given, own, pieces, number)
        return {
            "number": number,
            **(given or own).fields(),
            "pieces": pieces,
            "translation": self.translation(sample),
            "reference": self.reference(sample) if reference is None else reference,
            "attention": packed(attention(self.models[0], sample)),
        }

    def pieces(self, sample: dict) -> list[str]:
        """With the end of the sentence, which attends and is attended to."""
        dictionary = self.task.source_dictionary
        return [dictionary[k] for k in sample["net_input"]["src_tokens"][0].tolist()]

    def words(self, sample: dict, pieces: Sequence[str]) -> Words:
        """Those of the tree beside the data; without it those that the pieces spell."""
        tree = sample["net_input"].get("source_tree")
        if tree is None:
            return Words(joined(" ".join(pieces[:-1]), self.separator).split())
        parents, counts = (rows[0].tolist() for rows in tree)
        length = number_of_words(parents, counts)
        return Words(words_by_counts(pieces, counts[:length], self.separator), parents[:length])

    @property
    def separator(self) -> str:
        return self.task.separator() if hasattr(self.task, "separator") else SEPARATOR

    def check(self, given: Words, own: Words, pieces: Sequence[str], number: int) -> None:
        """A file of other sentences would show a wrong tree without a word."""
        unknown = self.task.source_dictionary.unk_word in pieces
        spelled = dense(joined(" ".join(pieces[:-1]), self.separator))
        same_text = dense(given.text or "") == spelled
        if own.parents is None and not (unknown or same_text):
            raise InputError(
                f"{given.where}: sentence {number} is '{given.text}' here and '{spelled}' in the "
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
    from fairseq_posattn.models.posattn_transformer import PosattnTransformerModel

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
        for number in command_line.progress(numbers)
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


def read_trees(path: str, numbers: Sequence[int]) -> dict[int, Words]:
    """Words, tree and relations of these sentences of a CoNLL-U file."""
    blocks = list(read_blocks(path))
    check_numbers(numbers, len(blocks), path)
    return {number: words_of_block(blocks[number]) for number in numbers}


def words_of_block(block) -> Words:
    sentence = parse_block(block)
    columns = [line.split("\t") for line in block.lines if not line.startswith("#")]
    relations = [row[DEPREL] for row in columns if row[0].isdecimal()]
    known = any(relation != "_" for relation in relations)
    text = " ".join(sentence.tokens)
    where = f"{block.path}:{block.line}"
    return Words(sentence.words, sentence.parents, relations if known else None, text, where)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", metavar="DATA", help="binarised data, with trees where there are")
    parser.add_argument("--path", type=Path, required=True, help="checkpoint")
    parser.add_argument(
        "--sentences",
        type=int,
        nargs="+",
        required=True,
        metavar="NUMBER",
        help="from 0, as in fairseq-generate's S-NUMBER",
    )
    parser.add_argument("--gen-subset", default="test")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--lenpen", type=float, default=1.0, help="as fairseq-generate's")
    parser.add_argument("--out", type=Path, default=Path("examples.json"))
    parser.add_argument(
        "--references", metavar="FILE", help="a line a sentence; default: the targets of the data"
    )
    parser.add_argument(
        "--trees", metavar="CONLLU", help="words and relations from here; a tree a sentence"
    )
    return parser.parse_args()


def write_examples() -> None:
    options = parse_options()
    found = examples(options)
    with written_whole(options.out) as file:
        json.dump(found, file, ensure_ascii=False, indent=1)
        file.write("\n")


def main() -> None:
    command_line.run(write_examples)


if __name__ == "__main__":
    main()
