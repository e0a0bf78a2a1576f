r"""Compute the perplexity of a language model in two ways of counting.

    python recipes/lm/perplexity.py WORK/data --path MODEL.pt --counts WORK/text/counts.json \\
        --split valid test --json RESULT.json

`per word` is exp of the mean loss over all predicted words, ends of sentences included, as
fairseq-eval-lm prints it.

`as published` is how Dagan (2019) counts: the authors' program never predicts the first word of a
sentence, sums the loss over the others, and divides the sum by the number of *input* words (see
counting.py; prepare.py says which ends of sentence are words, too). So the published figures are
too low, and only this one may be compared with them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from counting import AS_PUBLISHED, WORDS_READ, as_published

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_json, write_json
from fairseq_posattn.lab.scoring.loaded_model import Loaded, load

SENTENCES = 100  # the size of a batch


class Sums(NamedTuple):
    """Holds the sums and numbers that both ways of counting divide."""

    loss: float = 0.0  # of all words, in natural logarithms
    words: int = 0
    loss_of_targets: float = 0.0  # of all words but the first of each sentence, as published
    inputs: int = 0
    targets: int = 0

    def plus(self, losses: list[float], longest: int) -> Sums:
        """Return the sums with one more sentence, from the loss of each of its words; it has at
        most `longest` inputs."""
        inputs, targets = as_published(len(losses), longest).values()
        return Sums(
            self.loss + sum(losses),
            self.words + len(losses),
            self.loss_of_targets + sum(losses[1:]),
            self.inputs + inputs,
            self.targets + targets,
        )

    def perplexities(self) -> dict[str, float | int]:
        """Return the perplexities, and the numbers that they were computed from."""
        return {
            "per_word": math.exp(self.loss / self.words),
            "as_published": math.exp(self.loss_of_targets / self.inputs),
            "words": self.words,
            **dict(zip(AS_PUBLISHED, (self.inputs, self.targets), strict=True)),
        }


def sum_up(sentences: Iterable[list[float]], longest: int) -> Sums:
    """Return the sums over all sentences."""
    sums = Sums()
    for losses in sentences:
        sums = sums.plus(losses, longest)
    return sums


def check_counts(found: dict, expected: dict, data: Path, split: str) -> None:
    """Refuse data that were not made from the text whose words were counted."""
    for name in AS_PUBLISHED:
        if found[name] != expected.get(name):
            raise InputError(
                f"{data}: {split} has {found[name]} {name}, but counts.json says "
                f"{expected.get(name)}; prepare text and data anew, with the recipe and "
                "another --work"
            )


@torch.no_grad()
def losses_of_sentences(loaded: Loaded, split: str) -> Iterable[list[float]]:
    """Yield for each sentence of a split, cut as in training, the loss of each of its words."""
    model, task = loaded.model, loaded.task
    try:
        task.load_dataset(split)
    except FileNotFoundError:
        raise InputError(
            f"{task.args.data}: there is no split {split!r}; binarise it with fairseq-preprocess"
        ) from None
    padding = task.target_dictionary.pad()
    batches = task.get_batch_iterator(
        task.dataset(split), max_sentences=SENTENCES, required_batch_size_multiple=1
    )
    for batch in map(loaded.to_device, batches.next_epoch_itr(shuffle=False)):
        scores = model.get_normalized_probs(model(**batch["net_input"]), log_probs=True)
        target = batch["target"]  # B T
        losses = -scores.gather(-1, target[..., None]).squeeze(-1)
        for row, words in zip(losses, target, strict=True):
            yield row[words != padding].tolist()


def measure(data: Path, path: Path, counts: dict, splits: list[str], cpu: bool = False) -> dict:
    """Return the perplexities of a model on these splits."""
    loaded = load(path, str(data), cpu=cpu)
    longest = loaded.task.args.tokens_per_sample - 1  # the last word that is kept is never an input
    found = {"parameters": sum(parameter.numel() for parameter in loaded.model.parameters())}
    found["splitter"] = counts.get("splitter")
    for split in splits:
        found[split] = sum_up(losses_of_sentences(loaded, split), longest).perplexities()
        if longest == WORDS_READ:
            check_counts(found[split], counts[split], data, split)
    return found


def main() -> None:
    """Print the perplexities, and write them if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "data", type=Path, help="read the data in this folder of fairseq-preprocess"
    )
    parser.add_argument(
        "--path", type=Path, required=True, help="evaluate the model in this checkpoint"
    )
    parser.add_argument(
        "--counts", type=Path, required=True, help="read the counts.json that prepare.py wrote"
    )
    parser.add_argument(
        "--split",
        nargs="+",
        default=["valid", "test"],
        help="evaluate on these splits (default: valid test)",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even where there is a GPU")
    parser.add_argument("--json", type=Path, help="write the result to this file, too")
    arguments = parser.parse_args()
    counts = read_json(arguments.counts, "run recipes/lm/prepare.py again")
    found = measure(arguments.data, arguments.path, counts, arguments.split, arguments.cpu)
    for split in arguments.split:
        figures = found[split]
        print(
            f"{split}: {figures['per_word']:.2f} per word, "
            f"{figures['as_published']:.2f} as published"
        )
    if arguments.json:
        write_json(arguments.json, found, indent=1)


if __name__ == "__main__":
    command_line.run(main)
