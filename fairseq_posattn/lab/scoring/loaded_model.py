"""A trained model with its task, loaded as fairseq's programs load it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_posattn.errors import InputError, names_like
from fairseq_posattn.io.argument_types import option
from fairseq_posattn.trees.projection import SEPARATOR


class Loaded(NamedTuple):
    """A model ready to translate, its task, and the configuration that the checkpoint holds."""

    model: Any
    task: Any
    cfg: Any

    @property
    def separator(self) -> str:
        """Return the mark at the end of a piece that is not the last of its word."""
        own: str = self.task.separator() if hasattr(self.task, "separator") else SEPARATOR
        return own

    def to_device(self, sample: dict) -> dict:
        """Return a batch on the device of the model."""
        from fairseq.utils import move_to_cuda

        device = next(self.model.parameters()).device
        return move_to_cuda(sample, device) if device.type == "cuda" else sample


@dataclass(frozen=True, kw_only=True)
class OnData:
    """This names a model and the sentences that it reads, as the options of commands do."""

    data: str = option("read the sentences of these binarised data", metavar="DATA")
    path: Path = option("load the model of this checkpoint", required=True)
    user_dir: str | None = option(
        "import classes of your own that the model has", None, "", "FOLDER"
    )
    cpu: bool = option("use the CPU even where there is a GPU", False)
    task: str | None = option("take this task of fairseq (default: that of the training)", None)
    gen_subset: str = option(
        "choose the subset of the data (default: %(default)s)", "test", "", "NAME"
    )
    labels_of: Path | None = option(
        "the model was trained with the labels of the data in this folder", None, "", "FOLDER"
    )

    def load(self) -> Loaded:
        """Return the model."""
        return load(self.path, self.data, self.user_dir, self.task, self.cpu, self.labels_of)


def load(
    checkpoint: Path,
    data: str | None,
    user_dir: str | None = None,
    task: str | None = None,
    cpu: bool = False,
    labels_of: Path | None = None,
) -> Loaded:
    """Return the model of a checkpoint, on a GPU if there is one; the data must be its own.

    Without `data` they are where the training had them. The others are options of fairseq and of
    the task; without `task` it is that of the training.
    """
    import torch
    from fairseq import checkpoint_utils, utils

    from fairseq_posattn import plugin  # noqa: F401
    from fairseq_posattn.glue.user_dir import import_user_dir

    if data is not None:
        refuse_lacking(data, "name that of the binarised data")
    if not checkpoint.is_file():
        raise InputError(f"{checkpoint}: there is no such checkpoint; name the file (.pt)")
    import_user_dir(user_dir)
    if data is None:
        data = utils.split_paths(options_of_task(checkpoint, {}).data)[0]
        refuse_lacking(data, f"{checkpoint} was trained with it; name its new place with --data")
    overrides = {"data": str(Path(data).resolve())}
    try:
        other = None
        if task is not None or labels_of is not None:
            other = other_task(task, labels_of, options_of_task(checkpoint, overrides))
        (model,), cfg, chosen = checkpoint_utils.load_model_ensemble_and_task(
            [str(checkpoint)], overrides, other
        )
    except (RuntimeError, AssertionError) as error:
        what = " ".join(str(error).split())
        raise InputError(
            f"{checkpoint}: the checkpoint cannot be loaded with {data} ({what[:200]}); "
            "give the data that the model was trained with"
        ) from error
    if torch.cuda.is_available() and not cpu:
        model = model.cuda()
    model.eval()
    model.prepare_for_inference_(cfg)
    return Loaded(model, chosen, cfg)


def refuse_lacking(data: str, remedy: str) -> None:
    if not Path(data).is_dir():
        raise InputError(f"{data}: there is no such folder; {remedy}")


def other_task(name: str | None, labels_of: Path | None, options: Any) -> Any:
    """Return the task of this name, or that of the training, with the training's options as far as
    it has the same."""
    from fairseq import tasks

    if name is not None and name not in tasks.TASK_REGISTRY:
        known = names_like(name, tasks.TASK_REGISTRY)
        raise InputError(f"--task {name}: there is no such task; {known}")
    options.task = name or options._name
    if labels_of is not None:
        options.labels_of = str(labels_of)
    return tasks.setup_task(options)


def options_of_task(checkpoint: Path, overrides: dict[str, str]) -> Any:
    """Return the options of the task with which a checkpoint was trained."""
    from fairseq import checkpoint_utils
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from fairseq_posattn.glue.models.config import plain_namespace

    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint), overrides)
    args = state.get("args")
    cfg = state["cfg"] if args is None else convert_namespace_to_omegaconf(args)
    return plain_namespace(cfg.task)
