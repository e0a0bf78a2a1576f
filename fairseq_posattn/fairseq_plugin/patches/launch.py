"""Start distributed training, and prevent training runs from sharing a checkpoint folder."""

import atexit
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from fairseq.distributed import utils as distributed_utils
from fairseq.modules import LayerDropModuleList

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin import interactive
from fairseq_posattn.fairseq_plugin.patches.atomic import mend_last, remove_partial, writes_here
from fairseq_posattn.fairseq_plugin.patches.safe import CheckpointError
from fairseq_posattn.files.atomic import full_disk_named
from fairseq_posattn.files.lock import TRAINING, NoLocks, hold_until_the_end, this_process

logger = logging.getLogger(__name__)

UNTRIED = "POSATTN_UNTRIED"  # if it is 1, untested options are allowed

AS_ONE = (
    "to train one model with all processes, pass --distributed-world-size {n} to each, and on CPUs "
    "also --distributed-backend gloo --ddp-backend legacy_ddp"
)


def started_once(load_checkpoint, cfg, trainer, **kwargs):
    """Wrapper for checkpoint_utils.load_checkpoint that first locks the checkpoint folder.

    The wrapper also repairs the folder if an earlier training run was killed.
    """
    if trainer.data_parallel_world_size > 1:
        atexit.register(leave_the_others)
    together(trainer, lambda: prepare(cfg, trainer))
    if trainer.data_parallel_world_size > 1:
        # Each process reads the file itself, because loading a checkpoint that fairseq
        # broadcasts would need classes that are not allowed.
        cfg.load_checkpoint_on_all_dp_ranks = True
    return load_checkpoint(cfg, trainer, **kwargs)


def leave_the_others() -> None:
    """Destroy a gloo process group at exit; otherwise, torch sometimes aborts."""
    group = torch.distributed
    if group.is_initialized() and group.get_backend() == "gloo":
        group.destroy_process_group()


def together(trainer, action) -> None:
    """Run `action` in the first process while the others wait. If it fails, all processes exit."""
    error = None
    if trainer.is_data_parallel_master:
        try:
            action()
        except Exception as raised:
            error = raised
    if trainer.data_parallel_world_size > 1:
        failed = torch.tensor([float(error is not None)], device=trainer.device)
        distributed_utils.all_reduce(failed, group=trainer.data_parallel_process_group)
        if failed.item() and error is None:
            raise CheckpointError("the first process cannot start; see its own error message")
    if error is not None:
        raise error


def prepare(cfg, trainer) -> None:
    """Lock the checkpoint folder, and repair it if an earlier training run was killed."""
    started = int(os.environ.get("WORLD_SIZE") or 1)
    if started > 1 and trainer.cfg.distributed_training.distributed_world_size == 1:
        raise CheckpointError(
            f"{started} processes were started together (WORLD_SIZE={started}), but each would "
            f"train its own model; {AS_ONE.format(n=started)}"
        )
    if not writes_here(cfg):
        return
    folder = Path(cfg.save_dir)
    with full_disk_named(folder):
        take_lock(cfg.save_dir)
        remove_partial(folder)
        if cfg.restore_file == "checkpoint_last.pt" and not cfg.no_last_checkpoints:
            mend_last(folder, trainer.checkpoint_suffix)


def take_lock(save_dir: str) -> None:
    """Lock the folder until this process exits; raise a CheckpointError if it is locked already."""
    path = Path(os.path.realpath(os.path.join(save_dir, TRAINING)))
    try:
        holder = hold_until_the_end(path, this_process())
    except NoLocks as error:
        logger.warning(
            "%s cannot be locked (%s); do not start another training run in this folder",
            path,
            error,
        )
        return
    if holder is not None:
        raise CheckpointError(
            f"another training run ({holder}) is writing to {save_dir}, and the two would "
            "overwrite each other's checkpoints; choose another --save-dir, or, "
            f"{AS_ONE.format(n='N')}"
        )


def refused_early(call_main, cfg, main, **kwargs):
    """Wrapper for distributed_utils.call_main, with which fairseq starts its programs.

    It rejects unusable options early, and replaces the loop of fairseq-interactive.
    """
    program = sys.modules[main.__module__]
    if hasattr(program, "buffered_read"):  # fairseq-interactive
        main = interactive.main
    if hasattr(program, "should_stop_early"):  # fairseq-train
        refuse_untried(cfg.distributed_training.ddp_backend)
        if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
            raise InputError(
                "the batch size is missing; give it in pieces, such as --max-tokens 4096, or in "
                "sentences with --batch-size"
            )
    return call_main(cfg, main, **kwargs)


def refuse_untried(backend: str) -> None:
    """Raise an InputError for fully sharded training, which is untested with these models."""
    if backend != "fully_sharded":
        return
    if os.environ.get(UNTRIED) != "1":
        raise InputError(
            "--ddp-backend fully_sharded works on GPUs only and is untested with these models; "
            f"omit this option, or set the environment variable {UNTRIED}=1 to try it"
        )
    if find_spec("fairscale") is None:
        raise InputError(f"--ddp-backend {backend} needs fairscale; run pip install fairscale")


def in_parallel(data_parallel, module, device_ids=None, output_device=None, **options):
    """Wrapper for DistributedDataParallel that supports CPUs and LayerDrop.

    DistributedDataParallel fails if it is given device IDs for a model on a CPU, or if LayerDrop
    skips layers.
    """
    if all(parameter.device.type == "cpu" for parameter in module.parameters()):
        device_ids = output_device = None
    if any(isinstance(part, LayerDropModuleList) for part in module.modules()):
        options["find_unused_parameters"] = True
    return data_parallel(module, device_ids, output_device, **options)


def without_gpus(infer, cfg) -> None:
    """Wrapper for fairseq's torchrun setup that supports CPUs.

    fairseq's own setup divides by the number of GPUs.
    """
    if torch.cuda.device_count():
        return infer(cfg)
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = 0
    cfg.distributed_no_spawn = True
