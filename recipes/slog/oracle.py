"""Count the errors of a model given the correct prefix (teacher forcing), by category.

    cd recipes/slog/work
    python ../oracle.py data --path runs/walk.demo.seed1.*/averaged.pt --gen-subset test1

At each position, the most probable piece given the correct prefix is compared with the correct one.
Greedy search reproduces exactly the forms that have no errors. Of the other forms, `one error` is
the share with a single wrong piece, and `errors` is the mean number of wrong pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from fairseq_posattn.files import command_line
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.records import option
from fairseq_posattn.files.requests import asked
from fairseq_posattn.inspection.model import Loaded, OnData

TOKENS = 4000  # batch size
COLUMNS = ("forms", "right", "one error", "errors", "pieces right")


@torch.no_grad()
def errors_of(loaded: Loaded, subset: str) -> Iterator[tuple[int, int, int]]:
    """Yield the index of each sentence, and how many errors and pieces it has."""
    loaded.task.load_dataset(subset)
    batches = loaded.task.get_batch_iterator(
        loaded.task.dataset(subset), max_tokens=TOKENS
    ).next_epoch_itr(shuffle=False)
    pad = loaded.task.target_dictionary.pad()
    for sample in map(loaded.to_device, batches):
        scores, _ = loaded.model(**sample["net_input"])
        target = sample["target"]
        there = target != pad
        wrong = (scores.argmax(dim=-1) != target) & there
        yield from zip(
            sample["id"].tolist(), wrong.sum(dim=1).tolist(), there.sum(dim=1).tolist(), strict=True
        )


@dataclass(frozen=True, kw_only=True)
class Request(OnData):
    """The options of this program."""

    command: ClassVar = "oracle.py"
    labels: str = option(
        "file with the category of each sentence (default: %(default)s)", "raw/gen.category"
    )


def main() -> None:
    request = asked(Request, __doc__)
    labels = list(read_lines(request.labels))
    sums: dict[str, Counter[str]] = {}
    for number, errors, pieces in errors_of(request.load(), request.gen_subset):
        of_label = sums.setdefault(labels[number], Counter())
        of_label.update(forms=1, right=errors == 0, one=errors == 1, errors=errors, pieces=pieces)
    print(f"{'':18}" + "".join(f"{name:>14}" for name in COLUMNS))
    for label, found in sorted(sums.items()):
        forms, wrong = found["forms"], found["forms"] - found["right"]
        row = f"{label:18}{forms:14,}{100 * found['right'] / forms:14.1f}"
        row += f"{100 * found['one'] / max(1, wrong):14.1f}{found['errors'] / max(1, wrong):14.2f}"
        print(row + f"{100 - 100 * found['errors'] / found['pieces']:14.2f}")


if __name__ == "__main__":
    command_line.run(main)
