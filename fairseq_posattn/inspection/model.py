"""Load a trained model with its task, as fairseq's programs do.

This module also defines the options of posattn examples and posattn heads. It does not import torch
before a model is loaded.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from fairseq_posattn.errors import InputError, names_like
from fairseq_posattn.files.records import at_least, option
from fairseq_posattn.trees.projection import SEPARATOR


class Loaded(NamedTuple):
    """A model in evaluation mode, its task, and the configuration stored in the checkpoint."""

    model: Any
    task: Any
    cfg: Any

    @property
    def separator(self) -> str:
        """The marker of subword units, such as @@."""
        own: str = self.task.separator() if hasattr(self.task, "separator") else SEPARATOR
        return own

    def to_device(self, sample: dict) -> dict:
        from fairseq.utils import move_to_cuda

        device = next(self.model.parameters()).device
        return move_to_cuda(sample, device) if device.type == "cuda" else sample


@dataclass(frozen=True, kw_only=True)
class OnData:
    """Options that select a model and its input sentences."""

    data: str = option("data folder with the sentences to read", metavar="DATA")
    path: Path = option("checkpoint of the model", required=True)
    user_dir: str | None = option(
        "import the model's user-defined classes from this folder", None, metavar="FOLDER"
    )
    cpu: bool = option("use the CPU even if a GPU is available", False)
    task: str | None = option("fairseq task (default: the model's training task)", None)
    gen_subset: str = option("subset of the data (default: %(default)s)", "test", metavar="NAME")
    labels_of: Path | None = option(
        "read the dictionaries of labels from this data folder, if they differ from those in DATA",
        None,
        metavar="FOLDER",
    )

    def load(self) -> Loaded:
        return load(self.path, self.data, self.user_dir, self.task, self.cpu, self.labels_of)


@dataclass(frozen=True, kw_only=True)
class ExampleRequest(OnData):
    """The options of `posattn examples`."""

    command: ClassVar = "posattn examples"
    sentences: list[int] = option(
        "numbers of the sentences, counted from 0 as in fairseq-generate's S-NUMBER",
        required=True,
    )
    beam: int = option("beam size (default: %(default)s)", 5, at_least(1))
    lenpen: float = option("length penalty, as in fairseq-generate (default: %(default)s)", 1.0)
    references: str | None = option(
        "read references from this file, one per line (default: the target side of the data)",
        None,
        metavar="FILE",
    )
    trees: str | None = option(
        "read words and relations from this file, one tree per sentence", None, metavar="CONLLU"
    )
    out: Path = option(
        "write the examples to this file (default: %(default)s)", Path("examples.json")
    )


@dataclass(frozen=True, kw_only=True)
class HeadRequest(OnData):
    """The options of `posattn heads`."""

    command: ClassVar = "posattn heads"
    first: int | None = option("read only the first N sentences", None, at_least(1))
    trees: str | None = option(
        "compare attention with the trees in this file, one per sentence (default: those in DATA)",
        None,
        metavar="CONLLU",
    )
    out: Path = option("write the results to this file (default: %(default)s)", Path("heads.json"))


def load(
    checkpoint: Path,
    data: str | None,
    user_dir: str | None = None,
    task: str | None = None,
    cpu: bool = False,
    labels_of: Path | None = None,
) -> Loaded:
    """Load a model from a checkpoint, on a GPU if one is available.

        load(Path("checkpoint_best.pt"), "data").model

    data: the folder with the model's training data; None for the path stored in the checkpoint.
    task: the name of a fairseq task; None for the task that the model was trained with.
    labels_of: a data folder whose label dictionaries replace those of `data`.
    """
    import torch
    from fairseq import checkpoint_utils, utils

    from fairseq_posattn.plugin import import_user_dir

    if data is not None:
        refuse_lacking(data, "give the path of the data folder")
    if not checkpoint.is_file():
        raise InputError(
            f"{checkpoint}: there is no such checkpoint; give the path of the .pt file"
        )
    import_user_dir(user_dir)
    if data is None:
        data = utils.split_paths(options_of_task(checkpoint, {}).data)[0]
        refuse_lacking(data, f"{checkpoint} was trained with it; give its new path with --data")
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
            f"{checkpoint}: the checkpoint cannot be loaded with {data} ({what[:200]}); use the "
            "data folder that the model was trained with"
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
    """Set up a task with the options of the model's training task.

    name: the name of the task; None for the training task.
    """
    from fairseq import tasks

    if name is not None and name not in tasks.TASK_REGISTRY:
        known = names_like(name, tasks.TASK_REGISTRY)
        raise InputError(f"--task {name} is unknown; {known}")
    options.task = name or options._name
    if labels_of is not None:
        options.labels_of = str(labels_of)
    return tasks.setup_task(options)


def options_of_task(checkpoint: Path, overrides: dict[str, str]) -> Any:
    """Return the options of the task that a checkpoint was trained with."""
    from fairseq import checkpoint_utils
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    from fairseq_posattn.fairseq_plugin.models.config import plain_namespace

    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint), overrides)
    args = state.get("args")
    cfg = state["cfg"] if args is None else convert_namespace_to_omegaconf(args)
    return plain_namespace(cfg.task)
