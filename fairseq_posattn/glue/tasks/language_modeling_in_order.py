"""The task language_modeling_in_order, which batches neighbouring sentences of the corpus.

fairseq's own task sorts the sentences by length before it makes batches; the program that trained
the published models does not. Each epoch visits the batches in random order, except the first N
epochs with `--curriculum N`.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass

import numpy as np
from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask


@dataclass
class LanguageModelingInOrderConfig(LanguageModelingConfig):
    """Options of the task, the same as those of language_modeling."""


@register_task("language_modeling_in_order", dataclass=LanguageModelingInOrderConfig)
class LanguageModelingInOrderTask(LanguageModelingTask):
    """fairseq's task language_modeling, with batches of neighbouring sentences of the corpus."""

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs):
        """Load a split, with its sentences in the order of the corpus."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        self.datasets[split] = SortDataset(dataset, sort_order=[np.arange(len(dataset))])
