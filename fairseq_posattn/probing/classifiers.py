"""Train probing classifiers on the vectors of sentences or words.

| Classifier | Architecture | Tuned on dev |
|---|---|---|
| senteval | as in SentEval's code: no hidden layer | weight decay from 1e-5 to 1e-2 |
| mlp | as in SentEval's README: one hidden sigmoid layer | 50, 100 or 200 units; dropout |
| linear | no hidden layer and no weight decay | only the epoch |

As in SentEval's code, all classifiers are trained with Adam in batches of 64 and evaluated on dev
every 4 epochs. Training stops after 204 epochs, or once six evaluations in total have not improved
the accuracy. The model with the best accuracy on dev is used.

The control task of words (Hewitt and Liang 2019) assigns each word type a random label, drawn from
the distribution of the true labels, so a classifier can solve it only by memorising words. The
selectivity of a classifier is its accuracy on the true labels minus that on the control task.
"""

import copy
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fairseq_posattn.trees.control import Dice

BATCH, EPOCHS_BETWEEN, PATIENCE = 64, 4, 5
PART = 4096  # number of vectors that are classified at once
LONGEST = 204  # SentEval documents 200, but its loop runs four more epochs
FUSED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)  # on CPUs since PyTorch 2.4


@dataclass(frozen=True)
class Setting:
    """The hyperparameters of a classifier.

    hidden: the number of units in the hidden layer; 0 for no hidden layer.
    """

    hidden: int = 0
    dropout: float = 0.0
    decay: float = 0.0

    def __str__(self) -> str:
        layer = f"{self.hidden} hidden units, dropout {self.dropout:g}" if self.hidden else "linear"
        return f"{layer}, weight decay {self.decay:g}" if self.decay else layer


GRIDS: dict[str, Sequence[Setting]] = {
    "senteval": [Setting(decay=10.0**power) for power in range(-5, -1)],
    "mlp": [Setting(hidden, dropout) for hidden in (50, 100, 200) for dropout in (0.0, 0.1, 0.2)],
    "linear": [Setting()],
}


class Split(NamedTuple):
    """Vectors of shape (sentences, width) or (sentences, layers, width), and indices of labels."""

    vectors: Tensor
    labels: Tensor


class Fit(NamedTuple):
    """A trained classifier.

    dev: the best accuracy on dev, from 0 to 1.
    correct: for each test sentence, whether the prediction is correct.
    """

    setting: Setting
    dev: float
    correct: NDArray[np.bool_]
    model: nn.Module


class Mix(nn.Module):
    """Averages the vectors of all layers with learnt weights (Peters et al. 2018)."""

    def __init__(self, layers: int):
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Map vectors of shape (batch, layers, width) to vectors of shape (batch, width)."""
        mixed = torch.einsum("l,blc->bc", self.scores.softmax(dim=0), x)
        return self.scale * mixed


def network(setting: Setting, vectors: Tensor, classes: int) -> nn.Sequential:
    width = vectors.shape[-1]
    layers: list[nn.Module] = [Mix(vectors.shape[1])] if vectors.dim() == 3 else []
    if setting.hidden:
        hidden = nn.Linear(width, setting.hidden)
        layers += [hidden, nn.Dropout(setting.dropout), nn.Sigmoid()]
        width = setting.hidden
    return nn.Sequential(*layers, nn.Linear(width, classes))


def grid(classifier: str, hidden_layer: bool = True) -> Sequence[Setting]:
    """Return the settings to try; without a hidden layer, mlp uses the settings of senteval."""
    found = GRIDS[classifier]
    if hidden_layer or not found[0].hidden:
        return found
    return GRIDS["senteval"]


def tuned(
    settings: Sequence[Setting], train: Split, dev: Split, test: Split, classes: int, seed: int
) -> Fit:
    """Train with each setting, and return the fit with the best dev accuracy (ties: the first)."""
    best: tuple[float, Setting, nn.Module] | None = None
    for setting in settings:
        accuracy, model = fit(setting, train, dev, classes, seed)
        if best is None or round(100 * accuracy, 2) > round(100 * best[0], 2):
            best = accuracy, setting, model
    assert best is not None
    accuracy, setting, model = best
    return Fit(setting, accuracy, right(model, test), model)


def fit(
    setting: Setting, train: Split, dev: Split, classes: int, seed: int, longest: int = LONGEST
) -> tuple[float, nn.Module]:
    """Train one classifier, and return its best accuracy on dev with the corresponding model."""
    torch.manual_seed(seed)
    model = network(setting, train.vectors, classes).to(train.vectors.device)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=setting.decay, fused=FUSED)
    order = torch.Generator().manual_seed(seed)
    best, kept, patience, epochs = -1.0, model, 0, 0
    while patience <= PATIENCE and epochs < longest:
        for _ in range(EPOCHS_BETWEEN):
            train_epoch(model, optimizer, train, order)
        epochs += EPOCHS_BETWEEN
        accuracy = float(right(model, dev).mean())
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model)
        else:
            patience += 1
    return best, kept


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, train: Split, order: torch.Generator
) -> None:
    model.train()
    for chosen in torch.randperm(len(train.labels), generator=order).split(BATCH):
        chosen = chosen.to(train.vectors.device)
        loss = nn.functional.cross_entropy(model(train.vectors[chosen]), train.labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def right(model: nn.Module, split: Split) -> NDArray[np.bool_]:
    """Return for each sentence whether the predicted label is correct."""
    model.eval()
    parts = zip(split.vectors.split(PART), split.labels.split(PART), strict=True)
    found = [model(part).argmax(dim=1).eq(labels) for part, labels in parts]
    return torch.cat(found).cpu().numpy()


def selectivity(
    vectors: Sequence[Tensor],
    forms: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str]],
    seed: int,
) -> dict[str, float]:
    """Return the test accuracies for true and random labels of words, and their difference, in %.

    Each argument contains the words of train, dev and test.
    """
    control = random_labels(chain(*forms), labels[0], seed)
    true = accuracy(vectors, labels, seed)
    random = accuracy(vectors, [[control[form] for form in part] for part in forms], seed)
    return {"accuracy": true, "control": random, "selectivity": true - random}


def random_labels(forms: Iterable[str], labels: Sequence[str], seed: int) -> dict[str, str]:
    """Draw a label for each form from the distribution of the labels."""
    counts = sorted(Counter(labels).items())
    ends = list(accumulate(count for _, count in counts))
    chances = {form: Dice(str(seed), form).below(ends[-1]) for form in set(forms)}
    return {form: counts[bisect(ends, chance)][0] for form, chance in chances.items()}


def accuracy(vectors: Sequence[Tensor], labels: Sequence[Sequence[str]], seed: int) -> float:
    """Return a linear classifier's test accuracy in %; labels not in train count as wrong."""
    numbers = {label: k for k, label in enumerate(sorted(set(labels[0])))}
    train, dev, test = (
        Split(of_part, torch.tensor([numbers.get(label, -1) for label in part]))
        for of_part, part in zip(vectors, labels, strict=True)
    )
    _, model = fit(Setting(), train, dev, len(numbers), seed)
    return 100 * float(right(model, test).mean())
