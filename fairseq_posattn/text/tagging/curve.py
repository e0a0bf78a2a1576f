"""Measure points of a learning curve, more often than the validations that stop a training."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from fairseq import utils
from torch import distributed as dist

from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.text.tagging.accuracy import mean_loss, percentages, read_curve, totals

SPLIT = "valid"
WORDS_OF_A_BATCH = 4000


class Curve:
    """A curve is a file with one line of JSON for each point."""

    def __init__(self, path: str, interval: int):
        self.path, self.interval = Path(path), interval
        self.last = 0  # the last point was measured after this number of updates

    def is_due(self, updates: int) -> bool:
        """Return whether a point must be measured after this number of updates."""
        return updates % self.interval == 0 and updates > self.last

    def add_point(self, task, model, criterion, updates: int) -> None:
        """Measure a point and write it, in the first process only; training is not affected."""
        self.last = updates
        first = not dist.is_initialized() or dist.get_rank() == 0
        if not first or SPLIT not in task.datasets:
            return
        point = {"updates": updates, **self.measure(task, model, criterion)}
        # after a restart, the file may have later points
        earlier = [p for p in read_curve(self.path) if p["updates"] < updates]
        with written_whole(self.path) as file:
            file.writelines(json.dumps(p) + "\n" for p in [*earlier, point])

    def measure(self, task, model, criterion) -> dict[str, float]:
        """Return loss and accuracies of the model on the validation data."""
        dataset = task.dataset(SPLIT)
        device = next(model.parameters()).device
        model.eval()
        outputs = []
        with torch.no_grad():
            for indices in dataset.batch_by_size(
                dataset.sizes.argsort(kind="stable"), max_tokens=WORDS_OF_A_BATCH
            ):
                sample = dataset.collater([dataset[int(k)] for k in indices])
                sample = utils.move_to_cuda(sample, device) if device.type == "cuda" else sample
                outputs.append(criterion(model, sample)[2])
        model.train()
        total = totals(outputs)
        return {"loss": mean_loss(total), **percentages(total)}
