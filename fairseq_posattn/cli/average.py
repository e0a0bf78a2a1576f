"""Average the parameters of several checkpoints of one training (Vaswani et al. 2017).

    posattn-average RUN --last 5 --out RUN/averaged.pt

The newest checkpoints of RUN are taken by number of updates (checkpoint_1_1500.pt) or, where there
are none of these, by epoch (checkpoint3.pt).
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
    """Return the last `count` checkpoints, the oldest first."""
    names = sorted(os.listdir(run))
    for kind in (BY_UPDATES, BY_EPOCH):
        found = sorted((int(m[1]), name) for name in names if (m := kind.fullmatch(name)))
        if found:
            break
    if len(found) < count:
        raise InputError(
            f"{run}: there are {len(found)} checkpoints, but {count} are to be averaged; train "
            "longer, or choose fewer with --last"
        )
    return [Path(run) / name for _, name in found[-count:]]


def average(paths: Sequence[str | os.PathLike]) -> dict:
    """Return the last checkpoint with the mean of all checkpoints as its parameters."""
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
    """Refuse a checkpoint whose parameters have other names or sizes than those before it."""
    if not sums:
        return
    for name in sorted(sums.keys() ^ model.keys()):
        raise InputError(
            f"{path}: the architecture differs from that of {first}: only one of them has {name}; "
            "average checkpoints of one training"
        )
    for name, total in sums.items():
        if total.shape != model[name].shape:
            raise InputError(
                f"{path}: the architecture differs from that of {first}: {name} is "
                f"{tuple(model[name].shape)} here, but {tuple(total.shape)} there; "
                "average checkpoints of one training"
            )


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = command_parser("posattn-average", __doc__)
    parser.add_argument("run", help="average checkpoints of this --save-dir of a training")
    parser.add_argument(
        "--last",
        type=positive,
        default=5,
        help="average so many checkpoints, the newest ones (default: %(default)s)",
    )
    parser.add_argument("--out", required=True, help="write the averaged checkpoint to this file")
    return parser.parse_args()


def main() -> None:
    """Average the checkpoints that the command line names."""
    options = parse_options()
    register_classes()
    paths = newest(options.run, options.last)
    averaged = average(paths)
    averaged.pop("last_optimizer_state", None)
    write(averaged, options.out)
    print(f"{options.out} is the mean of {', '.join(path.name for path in paths)}")


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
