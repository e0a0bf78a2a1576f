"""Read the matrices of each head from a row of a picture, which draws equal heads once."""

import torch

from fairseq_posattn.core.specification import parse_numbers

HEADS = 4


def matrices(row):
    """A matrix for each head: a panel of several heads stands for each of them."""
    found = {
        head: torch.as_tensor(panel.values) for panel in row.panels for head in heads(panel.label)
    }
    return torch.stack([found[head] for head in sorted(found)])


def heads(label):
    """Return the numbers of the heads that a label names: 'heads 0–1, 3' -> 0, 1, 3."""
    numbers = label.split(maxsplit=1)[1].replace("–", "-").replace(", ", "|")
    return range(HEADS) if label == "all heads" else parse_numbers(numbers)
