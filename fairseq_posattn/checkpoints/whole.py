"""Whatever moment a training is killed at, the next one goes on from the last whole checkpoint, and
as the killed one would have gone on.

fairseq writes the first file of a save under another name and renames it, then copies it to the
other names, checkpoint_last.pt being the last. Here each copy is renamed too, and a mark stands in
the folder while a save is going on: found at the start of a training, it says that
checkpoint_last.pt may be behind, or not there yet.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
from pathlib import Path

import torch
from fairseq.file_io import PathManager

from fairseq_posattn.checkpoints.errors import CheckpointError
from fairseq_posattn.checkpoints.safe import is_torn

logger = logging.getLogger(__name__)

MARK = ".unfinished"
OF_TRAINING = r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)"  # not, say, checkpoint_average.pt


def whole_copy(copy):
    """Copy to a temporary name and rename: a kill in between leaves the old file as it was."""

    @functools.wraps(copy)
    def atomic(src_path: str, dst_path: str, overwrite: bool = False):
        if any(map(PathManager.path_requires_pathmanager, (src_path, dst_path))):
            return copy(src_path, dst_path, overwrite=overwrite)
        temporary = f"{dst_path}.tmp"
        try:
            shutil.copyfile(src_path, temporary)
            os.replace(temporary, dst_path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return True

    return atomic


def marked(save):
    """Save; leave a mark if it is killed before all files are there."""

    @functools.wraps(save)
    def save_marked(cfg, trainer, *args, **kwargs):
        if not (writes_here(cfg) and trainer.is_data_parallel_master):
            return save(cfg, trainer, *args, **kwargs)
        mark = Path(cfg.save_dir, MARK)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        saved = save(cfg, trainer, *args, **kwargs)
        mark.unlink(missing_ok=True)
        return saved

    return save_marked


def writes_here(cfg) -> bool:
    """Whether the training writes checkpoints, and into a folder of this machine."""
    return not cfg.no_save and not PathManager.path_requires_pathmanager(cfg.save_dir)


def remove_partial(folder: Path) -> None:
    """Half-written files of a killed training."""
    for partial in folder.glob("checkpoint*.pt.tmp"):
        partial.unlink(missing_ok=True)


def mend_last(folder: Path, suffix: str = "") -> None:
    """Put the newest whole checkpoint where fairseq looks, if the last save was broken off."""
    last, mark = folder / f"checkpoint_last{suffix}.pt", folder / MARK
    if mark.exists() or is_torn(last):
        restore(last, newest(folder, suffix))
    mark.unlink(missing_ok=True)


def restore(last: Path, found: Path | None) -> None:
    """Let the last checkpoint be a copy of the newest one."""
    if found is not None and found != last:
        logger.warning("the last save was broken off: going on from %s", found)
        PathManager.copy(str(found), str(last), overwrite=True)
    elif found is None and last.exists():
        raise CheckpointError(
            f"{last} is torn (its writing was broken off), and there is no whole checkpoint beside "
            "it to go on from: remove it to start anew, or name one with --restore-file"
        )


def newest(folder: Path, suffix: str) -> Path | None:
    """The whole checkpoint with the most updates; dates deceive, and `best` may be old."""
    name = re.compile(OF_TRAINING + re.escape(suffix) + r"\.pt")
    counts = {file: updates(file) for file in folder.iterdir() if name.fullmatch(file.name)}
    whole = [file for file, count in counts.items() if count is not None]
    return max(whole, key=lambda file: (counts[file], "_last" in file.name), default=None)


def updates(file: Path) -> int | None:
    """How many updates a checkpoint has seen; None if it cannot be loaded."""
    try:
        state = torch.load(str(file), map_location="cpu", mmap=True)  # reads no tensor
        return state["optimizer_history"][-1]["num_updates"]
    except Exception:  # torn in whatever way, or unsafe
        logger.warning("%s cannot be loaded", file)
        return None


def same_batches(get_batch_iterator):
    """fairseq makes its batches once, from the seed and the epoch that the process began in. Let
    that be the first one, so that a training that goes on has the batches of an unbroken one."""

    @functools.wraps(get_batch_iterator)
    def get(task, dataset, *args, epoch: int = 1, **kwargs):
        anew = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
        if anew or dataset in task.dataset_to_epoch_iter or not task.can_reuse_epoch_itr(dataset):
            return get_batch_iterator(task, dataset, *args, epoch=epoch, **kwargs)
        iterator = get_batch_iterator(task, dataset, *args, epoch=1, **kwargs)
        iterator.epoch = max(epoch, 1)
        dataset.set_epoch(epoch)
        return iterator

    return get
