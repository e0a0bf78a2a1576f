r"""Draw the attention weights of language models, as in Figures 3 and 4 of Dagan (2019).

    python recipes/lm/attention_maps.py WORK/data --split test --sentences 3 17 --out WORK/maps \\
        --path WORK/models/positional/checkpoint_best.pt [--path ...attentive/checkpoint_best.pt]

There is a figure for each sentence with a panel for each model. A row belongs to the word that is
predicted, and its columns to the words read so far; </s> at their start stands for the beginning of
the sentence.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole
from fairseq_posattn.lab.scoring.loaded_model import load

INCHES_OF_A_WORD, MARGIN = 0.22, 1.4


@torch.no_grad()
def weights_of(model, path: Path, tokens: Tensor) -> Tensor:
    """Return the weights T T of what was read (columns) for each step (rows), from tokens, T."""
    features = model.extract_features(tokens[None].to(next(model.parameters()).device))
    weights = features[1].get("weights")
    if weights is None:
        raise InputError(f"{path}: this model has no attention; name a model that has")
    return weights[0].float().cpu()


def draw(panels: dict[str, Tensor], read: list[str], predicted: list[str], path: Path) -> None:
    """Draw the weights of one sentence under the title of each model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    side = MARGIN + INCHES_OF_A_WORD * len(read)
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(side * len(panels), side), squeeze=False, layout="constrained"
    )
    for axis, (title, weights) in zip(axes[0], panels.items(), strict=True):
        axis.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        axis.set_xticks(range(len(read)), plain(read), rotation=90, fontsize=8)
        axis.set_yticks(range(len(predicted)), plain(predicted), fontsize=8)
        axis.set(title=title, xlabel="read", ylabel="predicted")
    with replaced_whole(path) as partial:
        figure.savefig(partial, format="png", dpi=100)
    pyplot.close(figure)


def plain(words: list[str]) -> list[str]:
    """Return the words with each dollar escaped, because it would begin a formula."""
    return [word.replace("$", r"\$") for word in words]


def chosen(dataset, split: str, numbers: list[int] | None, first: int, end: int) -> list[int]:
    """Return the numbers of the chosen sentences, counted from 1.

    Without numbers they are the first sentences that have words; a blank line has nothing but the
    word number `end`.
    """
    if not numbers:
        with_words = (k for k in range(len(dataset)) if dataset[k]["target"].ne(end).any())
        return [k + 1 for k in islice(with_words, first)]
    for number in numbers:
        if not 1 <= number <= len(dataset):
            raise InputError(f"--sentences {number}: {split} has the sentences 1 to {len(dataset)}")
    return numbers


def main() -> None:
    """Draw the figures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "data", type=Path, help="read the data in this folder of fairseq-preprocess"
    )
    parser.add_argument(
        "--path",
        type=Path,
        action="append",
        required=True,
        help="draw the model in this checkpoint; the option may be repeated",
    )
    parser.add_argument(
        "--split", default="test", help="take sentences of this split (default: %(default)s)"
    )
    parser.add_argument(
        "--sentences", type=int, nargs="+", help="choose sentences by number, counted from 1"
    )
    parser.add_argument(
        "--first",
        type=int,
        default=4,
        help="choose so many first sentences without --sentences (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even where there is a GPU")
    parser.add_argument("--out", type=Path, required=True, help="write the figures to this folder")
    arguments = parser.parse_args()
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("matplotlib is missing: pip install 'fairseq_posattn[lab]'") from None
    draw_all(arguments)


def draw_all(arguments: argparse.Namespace) -> None:
    """Draw all figures with one load of each model."""
    models = {path: load(path, str(arguments.data), cpu=arguments.cpu) for path in arguments.path}
    task = next(iter(models.values())).task
    task.load_dataset(arguments.split)
    dataset, symbols = task.dataset(arguments.split), task.source_dictionary
    numbers = arguments.sentences, arguments.first
    for number in chosen(dataset, arguments.split, *numbers, end=symbols.eos()):
        sentence = dataset[number - 1]
        panels = {
            path.parent.name: weights_of(loaded.model, path, sentence["source"])
            for path, loaded in models.items()
        }
        read, predicted = (
            [symbols[token] for token in sentence[side].tolist()] for side in ("source", "target")
        )
        file = arguments.out / f"{arguments.split}.{number}.png"
        draw(panels, read, predicted, file)
        print(file)


if __name__ == "__main__":
    command_line.run(main)
