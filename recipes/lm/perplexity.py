r"""Compute the perplexity of a language model with two ways of counting words.

    python recipes/lm/perplexity.py WORK/data --path MODEL.pt --counts WORK/text/counts.json \
        --split valid test --json RESULT.json

`per word` is exp of the mean loss over all predicted words, including ends of sentences, as
printed by fairseq-eval-lm.

`as published` follows Dagan (2019): the authors' program does not predict the first word of a
sentence, and divides the sum of the losses by the number of *input* words (see counting.py, and
prepare.py for ends of sentences). So the published perplexities are too low, and only this value
is comparable with them.
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
from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_json, write_json
from fairseq_posattn.inspection.model import Loaded, load

SENTENCES = 100  # batch size


class Sums(NamedTuple):
    """The sums and counts from which both perplexities are computed."""

    loss: float = 0.0  # of all words, in nats
    words: int = 0
    loss_of_targets: float = 0.0  # of all words except the first of each sentence
    inputs: int = 0
    targets: int = 0

    def plus(self, losses: list[float], longest: int) -> Sums:
        """Add a sentence, given the losses of its words and the maximum number of inputs."""
        inputs, targets = as_published(len(losses), longest).values()
        return Sums(
            self.loss + sum(losses),
            self.words + len(losses),
            self.loss_of_targets + sum(losses[1:]),
            self.inputs + inputs,
            self.targets + targets,
        )

    def perplexities(self) -> dict[str, float | int]:
        """Return the perplexities and the underlying counts."""
        return {
            "per_word": math.exp(self.loss / self.words),
            "as_published": math.exp(self.loss_of_targets / self.inputs),
            "words": self.words,
            **dict(zip(AS_PUBLISHED, (self.inputs, self.targets), strict=True)),
        }


def sum_up(sentences: Iterable[list[float]], longest: int) -> Sums:
    sums = Sums()
    for losses in sentences:
        sums = sums.plus(losses, longest)
    return sums


def check_counts(found: dict, expected: dict, data: Path, split: str) -> None:
    """Raise an InputError if the counts of the data differ from those in counts.json."""
    for name in AS_PUBLISHED:
        if found[name] != expected.get(name):
            raise InputError(
                f"{data}: {split} has {found[name]} {name}, but counts.json has "
                f"{expected.get(name)}; prepare text and data again, with the recipe and another "
                "--work"
            )


@torch.no_grad()
def losses_of_sentences(loaded: Loaded, split: str) -> Iterable[list[float]]:
    """Yield the losses of the words of each sentence of a split, truncated as in training."""
    model, task = loaded.model, loaded.task
    try:
        task.load_dataset(split)
    except FileNotFoundError:
        raise InputError(
            f"{task.args.data} has no split {split!r}; binarise it with fairseq-preprocess"
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
    longest = loaded.task.args.tokens_per_sample - 1  # the last word is never an input
    found = {"parameters": sum(parameter.numel() for parameter in loaded.model.parameters())}
    found["splitter"] = counts.get("splitter")
    for split in splits:
        found[split] = sum_up(losses_of_sentences(loaded, split), longest).perplexities()
        if longest == WORDS_READ:
            check_counts(found[split], counts[split], data, split)
    return found


def main() -> None:
    """Print the perplexities, and write them to --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="data folder from fairseq-preprocess")
    parser.add_argument("--path", type=Path, required=True, help="checkpoint to evaluate")
    parser.add_argument("--counts", type=Path, required=True, help="counts.json from prepare.py")
    parser.add_argument(
        "--split",
        nargs="+",
        default=["valid", "test"],
        help="splits to evaluate on (default: valid test)",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even if a GPU is available")
    parser.add_argument("--json", type=Path, help="also write the result to this file")
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
