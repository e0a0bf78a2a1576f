"""Average the parameters of several checkpoints of one training run (Vaswani et al. 2017)."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches import trained_on as trained
from fairseq_posattn.fairseq_plugin.patches.atomic import write
from fairseq_posattn.fairseq_plugin.patches.fitting import refuse_not_finite
from fairseq_posattn.fairseq_plugin.patches.safe import load_plain, register_classes
from fairseq_posattn.fairseq_plugin.requests import AverageRequest
from fairseq_posattn.files.lock import locked

BY_UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt")
MAY_CHANGE = re.compile(r"drop|_activations|min_params_to_wrap")  # options for training only
BY_EPOCH = re.compile(r"checkpoint(\d+)\.pt")


def newest(run: str | os.PathLike, count: int) -> list[Path]:
    """Return the last `count` checkpoints of a training run, oldest first.

    Checkpoints named by their number of updates are preferred to checkpoints named by their epoch.
    """
    names = sorted(os.listdir(run))
    for kind in (BY_UPDATES, BY_EPOCH):
        found = sorted((int(m[1]), name) for name in names if (m := kind.fullmatch(name)))
        if found:
            break
    of_kind = " named by updates" if found and kind is BY_UPDATES else " named by epoch or updates"
    if len(found) < count:
        raise InputError(
            f"{run}: the folder contains {len(found)} checkpoints{of_kind}, but --last requests "
            f"{count}; train longer, or use a smaller --last"
        )
    return [Path(run) / name for _, name in found[-count:]]


def average(paths: Sequence[str | os.PathLike]) -> dict:
    """Return the last checkpoint, with its parameters replaced by the mean over all checkpoints.

    Raise an InputError if the checkpoints are not from the same training run, or if a parameter is
    NaN or infinite.
    """
    sums: dict[str, torch.Tensor] = {}
    origin: dict[str, Any] = {}
    for path in paths:
        checkpoint = load_plain(path)
        origin = origin or origin_of(checkpoint)
        check_same_training(origin, origin_of(checkpoint), paths[0], path)
        check_same_model(sums, checkpoint["model"], paths[0], path)
        refuse_not_finite(checkpoint["model"].items(), path)
        for name, parameter in checkpoint["model"].items():
            sums[name] = sums.get(name, 0) + parameter.double()
    mean = {name: (total / len(paths)) for name, total in sums.items()}
    model = {name: mean[name].to(value.dtype) for name, value in checkpoint["model"].items()}
    return {**checkpoint, "model": model}


def origin_of(checkpoint: dict) -> dict[str, Any]:
    """Return the properties that all checkpoints of a training run share, if they are stored.

    These are the task, the seed, the languages, the fingerprints of the data, and the model
    options. fairseq's own models also store the options of all other components, which are
    excluded.
    """
    trained_on = (checkpoint.get("task_state") or {}).get(trained.KEY) or {}
    cfg = checkpoint.get("cfg") or {}
    parts = {name: plain(part) for name, part in cfg.items()}
    model, task = parts.pop("model", {}), parts.get("task", {})
    of_others = {name for part in parts.values() for name in part}.union(
        parts, ["no_seed_provided"]
    )
    return {
        **{f"the model's {name}": value for name, value in model.items() if name not in of_others},
        "the task": task.get("_name"),
        **{f"the {side}": task.get(side) for side in ("source_lang", "target_lang")},
        "the seed": parts.get("common", {}).get("seed"),
        **{f"the fingerprint of the {name}": value for name, value in trained_on.items()},
    }


def plain(part: Any) -> dict[str, Any]:
    if isinstance(part, argparse.Namespace):
        return vars(part)
    return part if isinstance(part, dict) else {}


def check_same_training(
    origin: dict[str, Any], own: dict[str, Any], first: str | os.PathLike, path: str | os.PathLike
) -> None:
    """Raise an InputError if a checkpoint differs from the first one in model, data or seed.

    Properties that are missing from either checkpoint are not compared.
    """
    for name in sorted(origin.keys() & own.keys()):
        here, there = own[name], origin[name]
        unknown = [value for value in (here, there) if value in (None, {})]
        if here != there and not unknown and not MAY_CHANGE.search(name):
            found = (
                "differs"
                if isinstance(here, dict)
                else f"is {here!r} in the former, but {there!r} in the latter"
            )
            raise InputError(
                f"{path} and {first} are from different training runs, because {name} {found}; "
                "average checkpoints of one training run"
            )


def check_same_model(sums: dict, model: dict, first, path) -> None:
    """Raise an InputError if the names or shapes of parameters differ between checkpoints."""
    if not sums:
        return
    for name in sorted(sums.keys() ^ model.keys()):
        raise InputError(
            f"{path} and {first} have different architectures, because only one has {name}; "
            "average checkpoints of one training run"
        )
    for name, total in sums.items():
        if total.shape != model[name].shape:
            raise InputError(
                f"{path} and {first} have different architectures, because {name} has the shape "
                f"{tuple(model[name].shape)} in the former, but {tuple(total.shape)} in the "
                "latter; average checkpoints of one training run"
            )


def write_average(request: AverageRequest) -> list[Path]:
    """Write the average of a run's last checkpoints without the optimizer state.

    Return the paths of the averaged checkpoints.
    """
    register_classes()
    paths = newest(request.run, request.last)
    with locked(request.out):
        averaged = average(paths)
        averaged.pop("last_optimizer_state", None)
        write(averaged, request.out)
    return paths
