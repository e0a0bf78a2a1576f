"""Write checkpoints atomically, so that a killed training run resumes from a complete checkpoint.

When fairseq saves checkpoints, it writes the first file, copies it to other file names, and updates
checkpoint_last.pt at the end. Meanwhile, this module keeps a marker file in the folder. If the next
run finds the marker, checkpoint_last.pt may be missing or outdated, and is restored. The marker
also records whether checkpoint_best.pt was about to be replaced.
"""

import filecmp
import logging
import os
import re
import shutil
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_posattn.fairseq_plugin.patches.safe import CheckpointError, is_torn
from fairseq_posattn.files.atomic import PARTIAL, full_disk_named, remove_leftovers, replaced_whole

logger = logging.getLogger(__name__)

MARK = ".unfinished"
# Checkpoint names of a training run; averaged checkpoints are named differently.
OF_TRAINING = r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)"


def marked(save, cfg, trainer, epoch_itr, val_loss):
    """Wrapper for checkpoint_utils.save_checkpoint that keeps a marker file during the save.

    If the process is killed during the save, the marker remains.
    """
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


def is_best(cfg, val_loss: float | None) -> bool:
    """Return whether fairseq regards this result as the best so far; a tie also counts."""
    best = vars(checkpoint_utils.save_checkpoint).get("best", val_loss)
    choose = max if cfg.maximize_best_checkpoint_metric else min
    return val_loss is not None and choose(val_loss, best) == val_loss


def writes_here(cfg) -> bool:
    """Return whether the training run writes checkpoints to a local folder."""
    return not cfg.no_save and not PathManager.path_requires_pathmanager(cfg.save_dir)


def remove_partial(folder: Path) -> None:
    for partial in folder.glob(f".*{PARTIAL}checkpoint*.pt"):
        remove_leftovers(folder / partial.name.partition(PARTIAL)[2])


def mend_last(folder: Path, suffix: str = "") -> None:
    """Restore checkpoint_last.pt from the newest complete checkpoint after an interrupted save."""
    last, mark = folder / f"checkpoint_last{suffix}.pt", folder / MARK
    if mark.exists() or is_torn(last):
        found = newest(folder, suffix)
        restore(last, found)
        if mark.exists() and found is not None:
            restore_best(folder / f"checkpoint_best{suffix}.pt", found, mark.read_text())
    mark.unlink(missing_ok=True)


def restore_best(best: Path, found: Path, broken_off: str) -> None:
    """Copy the newest checkpoint to checkpoint_best.pt if the interrupted save would have done so.

    broken_off: the content of the marker file.
    """
    wanted = broken_off == f"{updates(found)} best"
    if wanted and not (best.exists() and filecmp.cmp(best, found, shallow=False)):
        logger.warning("the last save was interrupted; %s is the best checkpoint so far", found)
        PathManager.copy(str(found), str(best), overwrite=True)


def restore(last: Path, found: Path | None) -> None:
    """Copy the newest complete checkpoint to `last`; raise a CheckpointError if there is none."""
    if found is not None and found != last:
        logger.warning("the last save was interrupted; the training resumes from %s", found)
        PathManager.copy(str(found), str(last), overwrite=True)
    elif found is None and last.exists():
        raise CheckpointError(
            f"{last} is incomplete, because writing it was interrupted, and its folder contains no "
            "complete checkpoint to resume from; remove the file to start from scratch, or choose "
            "a checkpoint with --restore-file"
        )


def newest(folder: Path, suffix: str) -> Path | None:
    """Return the complete checkpoint with the most updates, or None if there is none.

    Modification times are not used, because they are unreliable.
    """
    name = re.compile(OF_TRAINING + re.escape(suffix) + r"\.pt")
    counts = {file: updates(file) for file in folder.iterdir() if name.fullmatch(file.name)}
    whole = [file for file, count in counts.items() if count is not None]
    return max(whole, key=lambda file: (counts[file], "_last" in file.name), default=None)


def updates(file: Path) -> int | None:
    """Return the number of updates of a checkpoint, or None if it cannot be loaded."""
    try:
        state = torch.load(str(file), map_location="cpu", mmap=True)  # reads no tensor
        return state["optimizer_history"][-1]["num_updates"]
    except Exception:  # an incomplete or unsafe file can raise anything
        logger.warning("%s cannot be loaded and is ignored", file)
        return None


def whole_save(save, obj, filename, async_write=False):
    """Wrapper for checkpoint_utils.torch_persistent_save that writes atomically.

    Unlike fairseq, it does not retry if the disk is full.
    """
    if async_write or PathManager.path_requires_pathmanager(filename):
        return save(obj, filename, async_write=async_write)
    write(obj, filename)


def write(obj, path: str | Path) -> None:
    """Save an object atomically with torch.save.

    If writing fails, raise the original OSError instead of torch's own error.
    """
    with replaced_whole(os.fspath(path)) as partial:
        try:
            with open(partial, "wb") as file:
                torch.save(obj, file)
        except Exception as error:
            hidden = error_of_disk(error)
            if hidden is None:
                raise
            raise OSError(hidden.errno, hidden.strerror, str(path)) from None


def error_of_disk(error: BaseException | None) -> OSError | None:
    """Return the OSError in an exception's context chain, or None if there is none."""
    while error is not None and not (isinstance(error, OSError) and error.errno):
        error = error.__context__
    return error


def whole_copy(copy, src_path: str, dst_path: str, overwrite: bool = False):
    """Wrapper for PathManager.copy that replaces the target atomically."""
    if any(map(PathManager.path_requires_pathmanager, (src_path, dst_path))):
        return copy(src_path, dst_path, overwrite=overwrite)
    with replaced_whole(dst_path) as partial:
        shutil.copyfile(src_path, partial)
    return True
