"""The average of the parameters of several checkpoints of one training (Vaswani et al. 2017).

    posattn-average RUN --last 5 --out RUN/averaged.pt

takes the newest checkpoints of RUN by number of updates (checkpoint_1_1500.pt), or, where there are
none, by epoch (checkpoint3.pt).
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.glue.patches.old_names import rename_parameters
from fairseq_posattn.glue.patches.safe import load_plain, register_classes
from fairseq_posattn.glue.patches.writing import write
from fairseq_posattn.io.argument_types import command_parser, positive
from fairseq_posattn.io.command_line import run

BY_UPDATES = re.compile(r"checkpoint_\d+_(\d+)\.pt")
BY_EPOCH = re.compile(r"checkpoint(\d+)\.pt")


def newest(run: str | os.PathLike, count: int) -> list[Path]:
    """The last `count` checkpoints, oldest first."""
    names = sorted(os.listdir(run))
    for kind in (BY_UPDATES, BY_EPOCH):
        found = sorted((int(m[1]), name) for name in names if (m := kind.fullmatch(name)))
        if found:
            break
    if len(found) < count:
        raise InputError(
            f"{run}: {len(found)} checkpoints, {count} are to be averaged; train on, or take fewer "
            "(--last)"
        )
    return [Path(run) / name for _, name in found[-count:]]


def average(paths: Sequence[str | os.PathLike]) -> dict:
    """The last checkpoint, with the mean of all in the place of its parameters."""
    sums: dict[str, torch.Tensor] = {}
    for path in paths:
        checkpoint = load_plain(path)
        rename_parameters(checkpoint["model"])
        check_same_model(sums, checkpoint["model"], paths[0], path)
        for name, parameter in checkpoint["model"].items():
            sums[name] = sums.get(name, 0) + parameter.double()
    mean = {name: (total / len(paths)) for name, total in sums.items()}
    model = {name: mean[name].to(value.dtype) for name, value in checkpoint["model"].items()}
    return {**checkpoint, "model": model}


def check_same_model(sums: dict, model: dict, first, path) -> None:
    if not sums:
        return
    for name in sorted(sums.keys() ^ model.keys()):
        raise InputError(f"{path}: not of the same architecture as {first}: {name} is in one only")
    for name, total in sums.items():
        if total.shape != model[name].shape:
            raise InputError(
                f"{path}: not of the same architecture as {first}: {name} is "
                f"{tuple(model[name].shape)}, there {tuple(total.shape)}"
            )


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-average", __doc__)
    parser.add_argument("run", help="the --save-dir of a training")
    parser.add_argument(
        "--last", type=positive, default=5, help="how many checkpoints (default: %(default)s)"
    )
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    register_classes()
    paths = newest(options.run, options.last)
    averaged = average(paths)
    averaged.pop("last_optimizer_state", None)
    write(averaged, options.out)
    print(f"{options.out}: the mean of {', '.join(path.name for path in paths)}")


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
