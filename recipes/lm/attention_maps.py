r"""Draw the attention weights of language models, as in Figures 3 and 4 of Dagan (2019).

    python recipes/lm/attention_maps.py WORK/data --split test --sentences 3 17 --out WORK/maps \
        --path WORK/models/positional/checkpoint_best.pt [--path ...attentive/checkpoint_best.pt]

There is one figure per sentence, with one panel per model. Rows are predicted words, and columns
are the words read so far; the first column is </s>, which marks the beginning of the sentence.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import replaced_whole
from fairseq_posattn.inspection.figure import draw_matrix
from fairseq_posattn.inspection.model import load
from fairseq_posattn.inspection.plotting import STYLE, import_matplotlib, matplotlib_with
from fairseq_posattn.inspection.rows import Kind, Panel

INCHES_OF_A_WORD, MARGIN = 0.22, 1.4


@torch.no_grad()
def weights_of(model, path: Path, tokens: Tensor) -> Tensor:
    """Return a model's attention weights, steps x words read (T T), for tokens (T)."""
    features = model.extract_features(tokens[None].to(next(model.parameters()).device))
    weights = features[1].get("weights")
    if weights is None:
        raise InputError(f"{path}: the model has no attention; choose a model with attention")
    return weights[0].float().cpu()


def draw(panels: dict[str, Tensor], read: list[str], predicted: list[str], path: Path) -> None:
    """Draw the attention weights of one sentence, one panel per model."""
    side = MARGIN + INCHES_OF_A_WORD * len(read)
    with matplotlib_with(STYLE) as matplotlib, replaced_whole(path) as partial:
        figure = matplotlib.figure.Figure((side * len(panels), side), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (title, weights) in zip(axes, panels.items(), strict=True):
            draw_matrix(axis, Panel(title, 0, weights.numpy()), Kind.WEIGHTS, limit=1)
            middles = [k + 0.5 for k in range(len(read))]
            axis.set_xticks(middles, read, rotation=90)
            axis.set_yticks(middles, predicted)
            axis.set(title=title, xlabel="read", ylabel="predicted", aspect="equal")
        figure.savefig(partial, format="png", dpi=100)


def chosen(dataset, split: str, numbers: list[int] | None, first: int, end: int) -> list[int]:
    """Return the numbers of the sentences to draw, counted from 1.

    Without `numbers`, these are the first sentences that contain words. end: the index of `</s>`,
    the only token of blank lines.
    """
    if not numbers:
        with_words = (k for k in range(len(dataset)) if dataset[k]["target"].ne(end).any())
        return [k + 1 for k in islice(with_words, first)]
    for number in numbers:
        if not 1 <= number <= len(dataset):
            raise InputError(
                f"--sentences {number}: {split} has no such sentence; choose 1 to {len(dataset)}"
            )
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="data folder from fairseq-preprocess")
    parser.add_argument(
        "--path",
        type=Path,
        action="append",
        required=True,
        help="checkpoint to draw; repeat the option for further models",
    )
    parser.add_argument(
        "--split", default="test", help="split that contains the sentences (default: %(default)s)"
    )
    parser.add_argument(
        "--sentences", type=int, nargs="+", help="numbers of the sentences to draw, counted from 1"
    )
    parser.add_argument(
        "--first",
        type=int,
        default=4,
        help="without --sentences, draw the first N sentences (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="use the CPU even if a GPU is available")
    parser.add_argument("--out", type=Path, required=True, help="folder for the figures")
    arguments = parser.parse_args()
    import_matplotlib()
    draw_all(arguments)


def draw_all(arguments: argparse.Namespace) -> None:
    """Draw all figures, loading each model once."""
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
