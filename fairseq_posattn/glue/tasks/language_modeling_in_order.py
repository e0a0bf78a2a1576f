"""language_modeling_in_order: fairseq's language modeling, its batches in the order of the corpus.

fairseq's own task sorts the sentences by length before it makes batches; the program that trained
the published models does not. Then fairseq shuffles the batches of an epoch, as they are; in the
first N epochs of `--curriculum N` it does not.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options

from dataclasses import dataclass

import numpy as np
from fairseq.data import SortDataset
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask


@dataclass
class LanguageModelingInOrderConfig(LanguageModelingConfig):
    """The options are those of language_modeling."""


@register_task("language_modeling_in_order", dataclass=LanguageModelingInOrderConfig)
class LanguageModelingInOrderTask(LanguageModelingTask):
    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs):
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        dataset = self.datasets[split]
        self.datasets[split] = SortDataset(dataset, sort_order=[np.arange(len(dataset))])
