"""A trained language model, and its task, from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils

import fairseq_posattn.plugin  # noqa: F401  registers models, and lets checkpoints be read
from fairseq_posattn.errors import InputError

SENTENCES = 100  # in a batch


def load(path: Path, data: Path):
    """-> the model, ready to be evaluated, on a GPU if there is one; its task."""
    for place in (path, data / "dict.txt"):
        if not place.exists():
            raise InputError(f"{place}: no such file; train a model first, with recipes/lm/run.sh")
    logging.getLogger().setLevel(logging.WARNING)  # fairseq turns all messages on
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": str(data)}
    )
    return models[0].to("cuda" if torch.cuda.is_available() else "cpu").eval(), task


def batches(task, split: str, device) -> Iterator[dict]:
    """The sentences of a split, cut as in training."""
    try:
        task.load_dataset(split)
    except FileNotFoundError:
        raise InputError(
            f"{task.args.data}: no split {split!r}; binarize it with fairseq-preprocess"
        ) from None
    iterator = task.get_batch_iterator(
        task.dataset(split), max_sentences=SENTENCES, required_batch_size_multiple=1
    )
    for batch in iterator.next_epoch_itr(shuffle=False):
        yield utils.move_to_cuda(batch) if device.type == "cuda" else batch
