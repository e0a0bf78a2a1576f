"""Let a killed training go on from its last complete checkpoint, as if it had not been killed.

fairseq writes the first file of a save, then copies it to the other names, and checkpoint_last.pt
comes last. While a save is going on, a mark stands in the folder. If the next training finds the
mark, checkpoint_last.pt may be older than other files or missing; the mark also tells whether the
save was to replace checkpoint_best.pt.
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
# A training writes files of these names; averages of checkpoints have others.
OF_TRAINING = r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)"


def marked(save):
    """Wrap checkpoint_utils.save_checkpoint to leave a mark if it is killed before all files are
    there."""

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
    """Return whether fairseq takes this result for the best one; it does so with an equal one,
    too."""
    best = vars(checkpoint_utils.save_checkpoint).get("best", val_loss)
    choose = max if cfg.maximize_best_checkpoint_metric else min
    return val_loss is not None and choose(val_loss, best) == val_loss


def writes_here(cfg) -> bool:
    """Return whether the training writes checkpoints into a folder that this machine can reach."""
    return not cfg.no_save and not PathManager.path_requires_pathmanager(cfg.save_dir)


def remove_partial(folder: Path) -> None:
    """Remove the half-written files of a killed training."""
    for partial in folder.glob(f".*{PARTIAL}checkpoint*.pt"):
        remove_leftovers(folder / partial.name.partition(PARTIAL)[2])


def mend_last(folder: Path, suffix: str = "") -> None:
    """Put the newest complete checkpoint where fairseq looks, if the last save was interrupted."""
    last, mark = folder / f"checkpoint_last{suffix}.pt", folder / MARK
    if mark.exists() or is_torn(last):
        found = newest(folder, suffix)
        restore(last, found)
        if mark.exists() and found is not None:
            restore_best(folder / f"checkpoint_best{suffix}.pt", found, mark.read_text())
    mark.unlink(missing_ok=True)


def restore_best(best: Path, found: Path, broken_off: str) -> None:
    """Make the best checkpoint a copy of the newest one, if the interrupted save was to do that."""
    wanted = broken_off == f"{updates(found)} best"
    if wanted and not (best.exists() and filecmp.cmp(best, found, shallow=False)):
        logger.warning("the last save was interrupted: %s is the best checkpoint so far", found)
        PathManager.copy(str(found), str(best), overwrite=True)


def restore(last: Path, found: Path | None) -> None:
    """Make the last checkpoint a copy of the newest one."""
    if found is not None and found != last:
        logger.warning("the last save was interrupted: the training goes on from %s", found)
        PathManager.copy(str(found), str(last), overwrite=True)
    elif found is None and last.exists():
        raise CheckpointError(
            f"{last} is incomplete (its writing was interrupted), and there is no complete "
            "checkpoint beside it to go on from: remove it to start anew, or name a checkpoint "
            "with --restore-file"
        )


def newest(folder: Path, suffix: str) -> Path | None:
    """Return the complete checkpoint with the most updates, or None.

    Dates of files may be wrong, and checkpoint_best.pt may be old, so the updates count.
    """
    name = re.compile(OF_TRAINING + re.escape(suffix) + r"\.pt")
    counts = {file: updates(file) for file in folder.iterdir() if name.fullmatch(file.name)}
    whole = [file for file, count in counts.items() if count is not None]
    return max(whole, key=lambda file: (counts[file], "_last" in file.name), default=None)


def updates(file: Path) -> int | None:
    """Return how many updates a checkpoint has seen, or None if it cannot be loaded."""
    try:
        state = torch.load(str(file), map_location="cpu", mmap=True)  # reads no tensor
        return state["optimizer_history"][-1]["num_updates"]
    except Exception:  # an incomplete or unsafe file can raise anything
        logger.warning("%s cannot be loaded, so it is passed over", file)
        return None


def same_batches(get_batch_iterator):
    """Wrap FairseqTask.get_batch_iterator so that a resumed training has the batches of an unbroken
    one.

    fairseq makes its batches once, from the seed and from the epoch in which the process began.
    Here that is always the first epoch.
    """

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
