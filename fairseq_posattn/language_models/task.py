"""The language_modeling_in_order task, which batches consecutive sentences of the corpus.

fairseq's language_modeling task sorts the sentences by length before it creates batches. Like the
program of Dagan (2019), this task keeps the order of the corpus instead. The batches are visited in
random order, except in the first N epochs with `--curriculum N`.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass

import numpy as np
from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask


@dataclass
class LanguageModelingInOrderConfig(LanguageModelingConfig):
    """Options of the task, identical to those of language_modeling."""


@register_task("language_modeling_in_order", dataclass=LanguageModelingInOrderConfig)
class LanguageModelingInOrderTask(LanguageModelingTask):
    """fairseq's language_modeling task, but with batches of consecutive sentences."""

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs):
        """Load a split, and keep the sentences in the order of the corpus."""
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        self.datasets[split] = SortDataset(dataset, sort_order=[np.arange(len(dataset))])
