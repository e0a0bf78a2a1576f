"""Log the diagnostics of mechanisms to TensorBoard at each validation."""

import os

from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar

from fairseq_posattn.core.attention.diagnostics import diagnostics_of, watch

FOLDER = "diagnostics"  # next to fairseq's own folders, such as train and valid


def watched(begin_epoch, trainer, epoch):
    """Wrapper for Trainer.begin_epoch that lets mechanisms record their predictions.

    Predictions are recorded only if TensorBoard is used.
    """
    if folder_of(trainer.cfg):
        watch(trainer.model)
    return begin_epoch(trainer, epoch)


def written(begin_valid_epoch, trainer, epoch):
    """Wrapper for Trainer.begin_valid_epoch that logs the model's diagnostics to TensorBoard."""
    if folder := folder_of(trainer.cfg):
        write(trainer, folder)
    return begin_valid_epoch(trainer, epoch)


def folder_of(cfg) -> str | None:
    """Return --tensorboard-logdir in the process that writes the logs, and None in all others."""
    is_master = distributed_utils.is_master(cfg.distributed_training)
    return cfg.common.tensorboard_logdir if is_master else None


def write(trainer, folder: str) -> None:
    """Log each diagnostic as a scalar with the tag MODULE/MECHANISM NAME/HEAD.

    Spaces in the tag are replaced by `_`.
    """
    if progress_bar.SummaryWriter is None:
        return
    writer = None
    for found in diagnostics_of(trainer.model):
        writer = writer or writer_of(folder)
        for k, value in enumerate(found.values):
            head = f"/head {found.heads[k]}" if found.heads else ""
            tag = f"{found.place}/{found.mechanism} {found.name}{head}"
            writer.add_scalar(tag, value, trainer.get_num_updates())
    if writer is not None:
        writer.flush()


def writer_of(folder: str):
    """Return the SummaryWriter for the diagnostics, creating it on the first call."""
    writers = progress_bar._tensorboard_writers
    if FOLDER not in writers:
        writers[FOLDER] = progress_bar.SummaryWriter(os.path.join(folder, FOLDER))
    return writers[FOLDER]
