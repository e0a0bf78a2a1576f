"""The tagging task, which predicts one tag per word with the san_tagger model, and its criterion.

As in the implementation of Dufter et al. (2020), accuracies are computed on all words, on
out-of-vocabulary words, and on ambiguous words, which are words in the dictionary that have several
tags in the training data.
"""

# no `from __future__ import annotations`: fairseq reads the types of the options
import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from omegaconf import MISSING
from torch import Tensor
from torch import distributed as dist

from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.core.option_values import option
from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.tagging.accuracy import GROUPS, mean_loss, percentages, read_curve, totals
from fairseq_posattn.tagging.dataset import TaggingDataset, check_parts
from fairseq_posattn.tagging.vocabulary import KINDS, Vocabulary, load_vectors


@register_criterion("tagging", dataclass=FairseqDataclass)
class TaggingCriterion(FairseqCriterion):
    """Cross-entropy, averaged over the words that have a tag."""

    def __init__(self, task):
        super().__init__(task)
        self.vocabulary = task.vocabulary
        self.register_buffer("ambiguous", task.ambiguous, persistent=False)

    def forward(self, model, sample, reduce: bool = True):
        scores = model(**sample["net_input"])  # B T labels
        target = sample["target"]
        loss = F.cross_entropy(
            scores.flatten(0, 1).float(),
            target.flatten(),
            ignore_index=self.vocabulary.tags.pad(),
            reduction="sum" if reduce else "none",
        )
        counts = self.counts(sample["net_input"]["words"], target, model.tags(scores))
        logging_output = {"loss": loss.data, "nsentences": sample["nsentences"], **counts}
        logging_output["ntokens"] = logging_output["sample_size"] = counts["words"]
        return loss, counts["words"], logging_output

    def counts(self, words: Tensor, target: Tensor, found: Tensor) -> dict[str, int]:
        """Count the words and the correctly tagged words of each group."""
        tagged = target != self.vocabulary.tags.pad()
        right = found == target
        groups = {
            "": tagged,
            "oov_": tagged & (words == self.vocabulary.words.unk()),
            "ambiguous_": tagged & self.ambiguous.to(words.device)[words],
        }
        counts = {}
        for name, group in groups.items():
            counts[f"{name}words"] = int(group.sum())
            counts[f"{name}right"] = int((group & right).sum())
        return counts

    @staticmethod
    def reduce_metrics(logging_outputs) -> None:
        """Log the loss and the accuracy on each group of words."""
        total = totals(logging_outputs)
        metrics.log_scalar("loss", mean_loss(total), total["words"], round=3)
        for prefix, name in GROUPS.items():
            for part in ("words", "right"):
                metrics.log_scalar_sum(f"_{prefix}{part}", total[f"{prefix}{part}"])
            metrics.log_derived(name, lambda meters, prefix=prefix: percentage(meters, prefix))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def percentage(meters, prefix: str) -> float:
    """Return the accuracy on a group in percent, or NaN if the group has no words."""
    words = meters[f"_{prefix}words"].sum
    return round(100 * float(meters[f"_{prefix}right"].sum) / words, 3) if words else math.nan


SPLIT = "valid"
WORDS_OF_A_BATCH = 4000


class Curve:
    """Writes a learning curve to a JSON Lines file, which has one line per point.

    interval: the number of updates between two points, independent of validation.
    """

    def __init__(self, path: str, interval: int):
        self.path, self.interval = Path(path), interval
        self.last = 0  # the number of updates at the last point

    def is_due(self, updates: int) -> bool:
        return updates % self.interval == 0 and updates > self.last

    def add_point(self, task, model, criterion, updates: int) -> None:
        """Evaluate the model on the validation set and append a point.

        In distributed training, only the first process does so.
        """
        self.last = updates
        first = not dist.is_initialized() or dist.get_rank() == 0
        if not first or SPLIT not in task.datasets:
            return
        point = {"updates": updates, **self.measure(task, model, criterion)}
        # after a restart, the file may contain later points
        earlier = [p for p in read_curve(self.path) if p["updates"] < updates]
        with written_whole(self.path) as file:
            file.writelines(json.dumps(p) + "\n" for p in [*earlier, point])

    def measure(self, task, model, criterion) -> dict[str, float]:
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


logger = logging.getLogger(__name__)


@dataclass
class TaggingConfig(FairseqDataclass):
    """Options of the tagging task."""

    data: str = option(MISSING, "read data from this folder, made by posattn binarize-tagging")
    word_vectors: Optional[str] = option(
        None, "initialise word embeddings with the vectors of this text file (fastText, word2vec)"
    )
    fixed_word_vectors: bool = option(False, "do not update the word embeddings in training")
    batches: ChoiceEnum(["by_length", "shuffled"]) = option(  # type: ignore[valid-type]  # fairseq calls it
        "by_length",
        "batch sentences of similar length, which is faster (by_length, the default), or "
        "random sentences, as the authors' program does (shuffled)",
    )
    curve: Optional[str] = option(
        None, "write the learning curve on the validation set to this file, as JSON lines"
    )
    curve_interval: int = option(
        100, "set the number of updates between two points of the learning curve (default: 100)"
    )


@register_task("tagging", dataclass=TaggingConfig)
class TaggingTask(FairseqTask):
    """Trains and evaluates a tagger on data from posattn binarize-tagging.

    Example:

        posattn train DATA --task tagging --arch san_tagger_conv2d --criterion tagging \\
            --batch-size 32
    """

    def __init__(self, cfg: TaggingConfig, vocabulary: Vocabulary):
        super().__init__(cfg)
        self.vocabulary = vocabulary
        self.ambiguous = torch.from_numpy(vocabulary.is_ambiguous())
        self.curve = Curve(cfg.curve, cfg.curve_interval) if cfg.curve else None

    @classmethod
    def setup_task(cls, cfg: TaggingConfig, **kwargs):
        vocabulary = Vocabulary.load(cfg.data)
        logger.info(
            "words: %d, characters: %d, labels: %d (including padding and unknown)",
            *map(len, (vocabulary.words, vocabulary.chars, vocabulary.tags)),
        )
        return cls(cfg, vocabulary)

    def load_dataset(self, split: str, **kwargs):
        prefix = Path(self.cfg.data, split)
        vocabulary = (self.vocabulary.words, self.vocabulary.chars, self.vocabulary.tags)
        words, chars, tags = parts = [
            data_utils.load_indexed_dataset(f"{prefix}.{kind}", dictionary)
            for kind, dictionary in zip(KINDS, vocabulary, strict=True)
        ]
        if None in parts:
            raise InputError(
                f"{self.cfg.data}: the folder contains no split '{split}'; choose another one with "
                "--train-subset or --valid-subset, or create it with posattn binarize-tagging"
            )
        check_parts(str(prefix), *parts)
        by_length = str(self.cfg.batches) == "by_length"
        self.datasets[split] = TaggingDataset(words, chars, tags, by_length=by_length)

    def get_batch_iterator(self, dataset, *args, **options):
        """Return a batch iterator that drops no sentences.

        By default, fairseq drops the longest sentences if they do not fill a batch of 8.
        """
        options["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **options)

    def build_model(self, cfg, from_checkpoint=False):
        """Build the model and load --word-vectors into it."""
        cfg.encoder_attention = str(AttentionSpecification(cfg.encoder_attention))
        self.check_length(cfg)
        model = super().build_model(cfg, from_checkpoint)
        words = model.tagger.words.weight
        if self.cfg.fixed_word_vectors and not (self.cfg.word_vectors or from_checkpoint):
            raise InputError("--fixed-word-vectors needs word vectors; add --word-vectors FILE")
        if self.cfg.word_vectors and not from_checkpoint:
            load_vectors(self.cfg.word_vectors, self.vocabulary.words, words)
        words.requires_grad = not self.cfg.fixed_word_vectors
        return model

    def check_length(self, cfg) -> None:
        """Raise an InputError if the longest sentence exceeds the model's maximum length."""
        longest = self.vocabulary.settings.max_words
        if longest > cfg.max_source_positions:
            raise InputError(
                f"{self.cfg.data}: sentences have up to {longest} words, but the model accepts "
                f"only {cfg.max_source_positions}; give --max-source-positions {longest}"
            )

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        if self.curve is not None and self.curve.is_due(update_num):
            self.curve.add_point(self, model, criterion, update_num)
        return super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)

    def checked_dictionaries(self) -> dict[str, Dictionary]:
        """Return the dictionaries whose fingerprints are stored in checkpoints."""
        return {name: getattr(self.vocabulary, name) for name in ("words", "chars", "tags")}

    @property
    def source_dictionary(self):
        return self.vocabulary.words

    @property
    def target_dictionary(self):
        return self.vocabulary.tags
