"""Whatever moment a training is killed at, the next one goes on from the last whole checkpoint, and
as the killed one would have gone on.

fairseq writes the first file of a save, then copies it to the other names, checkpoint_last.pt being
the last. A mark stands in the folder while a save is going on: found at the start of a training, it
says that checkpoint_last.pt may be behind, or not there yet, and whether checkpoint_best.pt was to
be replaced, too.
"""

from __future__ import annotations

import filecmp
import functools
import logging
import re
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_posattn.glue.patches.errors import CheckpointError
from fairseq_posattn.glue.patches.safe import is_torn
from fairseq_posattn.io.atomic import PARTIAL, full_disk_named, remove_leftovers

logger = logging.getLogger(__name__)

MARK = ".unfinished"
OF_TRAINING = r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)"  # not, say, checkpoint_average.pt


def marked(save):
    """checkpoint_utils.save_checkpoint: leave a mark if it is killed before all files are there."""

    @functools.wraps(save)
    def save_marked(cfg, trainer, epoch_itr, val_loss):
        if not (writes_here(cfg) and trainer.is_data_parallel_master):
            return save(cfg, trainer, epoch_itr, val_loss)
        folder = Path(cfg.save_dir)
        folder.mkdir(parents=True, exist_ok=True)
        with full_disk_named(folder):
            note = f"{trainer.get_num_updates()} {'best' * is_best(cfg, val_loss)}"
            (folder / MARK).write_text(note)
            saved = save(cfg, trainer, epoch_itr, val_loss)
        (folder / MARK).unlink(missing_ok=True)
        return saved

    return save_marked


def is_best(cfg, val_loss: float | None) -> bool:
    """Return whether fairseq takes this result for the best one, as it does with an equal one."""
    best = vars(checkpoint_utils.save_checkpoint).get("best", val_loss)
    choose = max if cfg.maximize_best_checkpoint_metric else min
    return val_loss is not None and choose(val_loss, best) == val_loss


def writes_here(cfg) -> bool:
    """Whether the training writes checkpoints, and into a folder of this machine."""
    return not cfg.no_save and not PathManager.path_requires_pathmanager(cfg.save_dir)


def remove_partial(folder: Path) -> None:
    """Half-written files of a killed training."""
    for partial in folder.glob(f".*{PARTIAL}checkpoint*.pt"):
        remove_leftovers(folder / partial.name.partition(PARTIAL)[2])


def mend_last(folder: Path, suffix: str = "") -> None:
    """Put the newest whole checkpoint where fairseq looks, if the last save was broken off."""
    last, mark = folder / f"checkpoint_last{suffix}.pt", folder / MARK
    if mark.exists() or is_torn(last):
        found = newest(folder, suffix)
        restore(last, found)
        if mark.exists() and found is not None:
            restore_best(folder / f"checkpoint_best{suffix}.pt", found, mark.read_text())
    mark.unlink(missing_ok=True)


def restore_best(best: Path, found: Path, broken_off: str) -> None:
    """Let the best checkpoint be a copy of the newest one, if the broken save was to do that."""
    wanted = broken_off == f"{updates(found)} best"
    if wanted and not (best.exists() and filecmp.cmp(best, found, shallow=False)):
        logger.warning("the last save was broken off: %s is the best so far", found)
        PathManager.copy(str(found), str(best), overwrite=True)


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
