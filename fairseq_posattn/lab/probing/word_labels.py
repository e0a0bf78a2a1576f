"""Probe word vectors for labels, with a control task (Hewitt and Liang 2019).

The control task assigns each word type a random label, drawn from the distribution of the true
labels, so a probe can solve it only by memorising words. The selectivity of a probe is its accuracy
on the true labels minus its accuracy on the control task.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray

from fairseq_posattn.lab.probing.classifiers import Setting, Split, fit, right
from fairseq_posattn.lab.probing.structural import Sentences
from fairseq_posattn.trees.control import Dice


@dataclass(frozen=True)
class LabelledWords:
    """The words of all sentences: their vectors of shape (words, width), forms and labels."""

    vectors: NDArray[np.float32]
    forms: list[str]
    labels: list[str]


def labelled(sentences: Sentences, name: str) -> LabelledWords:
    """Return the words with labels: their parts of speech (`tags`) or their `relations`."""
    return LabelledWords(
        sentences.vectors,
        [form for tree in sentences.trees for form in tree.forms],
        [label for tree in sentences.trees for label in getattr(tree, name)],
    )


def random_labels(forms: Sequence[str], labels: Sequence[str], seed: int) -> dict[str, str]:
    """Draw a label for each form from the distribution of the labels."""
    counts = sorted(Counter(labels).items())
    ends = list(accumulate(count for _, count in counts))
    found = {}
    for form in set(forms):
        chance = Dice(str(seed), form).below(ends[-1])
        found[form] = counts[bisect(ends, chance)][0]
    return found


def selectivity(
    train: LabelledWords, dev: LabelledWords, test: LabelledWords, seed: int
) -> dict[str, float]:
    """Return the test accuracies for true and random labels, and their difference, in %."""
    forms = [*train.forms, *dev.forms, *test.forms]
    control = random_labels(forms, train.labels, seed)
    true = accuracy(train, dev, test, seed)
    train, dev, test = (
        replace(part, labels=[control[form] for form in part.forms]) for part in (train, dev, test)
    )
    random = accuracy(train, dev, test, seed)
    return {"accuracy": true, "control": random, "selectivity": true - random}


def accuracy(train: LabelledWords, dev: LabelledWords, test: LabelledWords, seed: int) -> float:
    """Return a linear classifier's test accuracy in %; labels not in train count as wrong."""
    numbers = {label: k for k, label in enumerate(sorted(set(train.labels)))}
    splits = [
        Split(
            torch.from_numpy(np.array(part.vectors)),
            torch.tensor([numbers.get(label, -1) for label in part.labels]),
        )
        for part in (train, dev, test)
    ]
    _, model = fit(Setting(), splits[0], splits[1], len(numbers), seed)
    return 100 * float(right(model, splits[2]).mean())
