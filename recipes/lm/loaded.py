"""Load a trained language model and its task from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils

import fairseq_posattn.plugin  # noqa: F401  it registers models and reads checkpoints safely
from fairseq_posattn.errors import InputError

SENTENCES = 100  # the size of a batch


def load(path: Path, data: Path, cpu: bool = False):
    """Return the model, ready to be evaluated and on a GPU if there is one, and its task."""
    for place in (path, data / "dict.txt"):
        if not place.exists():
            raise InputError(
                f"{place}: there is no such file; train a model first, with recipes/train.sh lm"
            )
    logging.getLogger().setLevel(logging.WARNING)  # fairseq turns all messages on
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": str(data)}
    )
    device = "cuda" if torch.cuda.is_available() and not cpu else "cpu"
    return models[0].to(device).eval(), task


def batches(task, split: str, device) -> Iterator[dict]:
    """Yield the sentences of a split in batches, cut as in training."""
    try:
        task.load_dataset(split)
    except FileNotFoundError:
        raise InputError(
            f"{task.args.data}: there is no split {split!r}; binarise it with fairseq-preprocess"
        ) from None
    iterator = task.get_batch_iterator(
        task.dataset(split), max_sentences=SENTENCES, required_batch_size_multiple=1
    )
    for batch in iterator.next_epoch_itr(shuffle=False):
        yield utils.move_to_cuda(batch) if device.type == "cuda" else batch
