"""The options of fairseq-train with which the models of a translation recipe are trained."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.commands import Command, called
from fairseq_posattn.experiments.machine import Machine, visible_devices
from fairseq_posattn.experiments.preparing import check_texts
from fairseq_posattn.experiments.recipe import arguments, presets, refuse_unknown
from fairseq_posattn.experiments.recipe_content import Row, Size
from fairseq_posattn.experiments.runs import Run, by_option
from fairseq_posattn.experiments.sizes import size_for
from fairseq_posattn.experiments.training import RESET, TOTAL
from fairseq_posattn.experiments.translation_setup import TranslationSetup
from fairseq_posattn.trees.sentence import KINDS

TRAINING = {  # the settings of Vaswani et al. (2017), which a recipe can override
    "criterion": "label_smoothed_cross_entropy",
    "label-smoothing": 0.1,
    "optimizer": "adam",
    "adam-betas": "(0.9, 0.98)",
    "adam-eps": "1e-9",
    "clip-norm": 0,
    "lr-scheduler": "inverse_sqrt",
    "warmup-updates": 4000,
    "warmup-init-lr": "1e-7",
}


def run_of(setup: TranslationSetup, row: Row, seed: int) -> Run:
    """Return the run of a model with the given seed.

    Raises InputError if the data do not exist or if the texts have changed since the data were
    built.
    """
    data = setup.data(row.trees)
    if not setup.shell.is_there(data):
        raise InputError(f"{data}: no data; run {called('prepare', setup.recipe.called)} first")
    setup.shell.act(check_texts, setup, row.trees)
    updates = setup.settings.updates or setup.content.sizes[row.size].updates
    options, shards = options_of(setup, row, seed), setup.shards(row.trees)
    return setup.run_with(
        row.title, row.size, seed, updates, options, shards, row.trees, row.tested
    )


def options_of(setup: TranslationSetup, row: Row, seed: int) -> dict[str, Any]:
    """Return the options of fairseq-train that do not depend on the machine."""
    size, training = setup.content.sizes[row.size], setup.content.training
    found = options_of_size(row.model, size, {**training, **size.training, **row.training})
    if setup.settings.updates and TOTAL in found:
        found[TOTAL] = setup.settings.updates
    return {**found, "seed": seed}


def options_of_size(model: str, size: Size, training: Options) -> dict[str, Any]:
    """Return the options of fairseq-train for a preset and a size; `training` takes precedence."""
    chosen = {**TRAINING, **training}
    if chosen["lr-scheduler"] != TRAINING["lr-scheduler"] and "warmup-init-lr" not in training:
        del chosen["warmup-init-lr"]  # not all learning rate schedules support it
    return {
        "arch": f"posattn_{model}{size.arch}",
        "batch-tokens": size.batch_tokens,
        **chosen,
    }


def options_for(model: str, name: str, data: Path) -> list[str]:
    """Return the options of fairseq-train for a preset and a shared size, adjusted to the data.

    The options use all visible GPUs, or the CPU if no GPU is visible.

    Example:

        options_for("structural", "small", Path("data"))
    """
    refuse_unknown([model], presets())
    shards = sorted(data.glob("shard*")) or [data]
    size = size_for(name, sum(map(training_pairs, shards)))
    machine = Machine(cpu=not visible_devices())
    of_pieces = [path for path in shards[0].glob("dict.*.txt") if not path.stem.endswith(KINDS)]
    joined = len({path.read_bytes() for path in of_pieces}) == 1
    embeddings = "share-all-embeddings" if joined else "share-decoder-input-output-embed"
    options = options_of_size(model, size, {embeddings: True, **size.training})
    return arguments(on_machine(options, machine, size, size.updates))


def on_machine(options: Options, machine: Machine, size: Size, updates: int) -> dict[str, Any]:
    """Add the options for the machine, and for batches, updates and checkpoints."""
    return {
        **{name: value for name, value in options.items() if name != "batch-tokens"},
        **machine.batch(options["batch-tokens"]),
        "max-update": updates,
        "no-epoch-checkpoints": True,
        "save-interval-updates": save_interval(size.save_every, size.averaged, updates),
        "keep-interval-updates": size.averaged,
        **machine.options(),
    }


def training_pairs(data: Path) -> int:
    """Return the number of sentence pairs in the training set of a data folder."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    for path in data.glob("train.*-*.*.bin"):
        _, languages, language, *more = path.stem.split(".")
        if languages.startswith(f"{language}-") and not more:  # .tree.bin contains the trees
            return len(MMapIndexedDataset(str(path.with_suffix(""))))
    raise InputError(f"{data}: no training data; use a data folder written by posattn prepare")


def command_of(setup: TranslationSetup, run: Run, row: Row, machine: Machine) -> Command:
    size, training = setup.content.sizes[row.size], setup.settings.rest
    given = options_of(setup, row, run.record.seed)
    options = {
        **on_machine(given, machine, size, run.record.updates),
        "save-dir": run.folder,
        "tensorboard-logdir": run.folder / "tensorboard",
        "log-format": "simple",
        "log-interval": 100,
    }
    data = os.pathsep.join(map(str, setup.shards(row.trees)))
    task = arguments({**setup.task, **options})
    again = setup.shell.act(resets, run.folder, options, training, instead=[])
    return [*machine.launch(setup.name), data, *task, *again, *training]


def save_interval(every: int, averaged: int, updates: int) -> int:
    """Return how many updates apart to save checkpoints, so that at least `averaged` are saved."""
    if updates // every > averaged:
        return every
    return max(1, updates // (averaged + 1))


def resets(folder: Path, options: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """Return the option that restarts the epoch, if this is necessary to resume a run correctly.

    fairseq stores the position in the epoch as a number of batches per process. If the number of
    processes, max-tokens or update-freq has changed, this position is wrong. All machines read the
    former settings from the checkpoint, so they make the same decision.
    """
    last = folder / "checkpoint_last.pt"
    if not last.exists():
        return []
    names = ("distributed-world-size", "max-tokens", "update-freq")
    chosen = by_option(given)
    now = tuple(" ".join(chosen.get(f"--{name}", [str(options[name])])) for name in names)
    return [] if batches_of(last) == now else [f"--{RESET}"]


def batches_of(checkpoint: Path) -> tuple[str, str, str]:
    """Read distributed-world-size, max-tokens and update-freq from a checkpoint."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    from fairseq_posattn import plugin  # noqa: F401  (it loads checkpoints safely)

    config = load_checkpoint_to_cpu(str(checkpoint))["cfg"]
    batches = ",".join(map(str, config["optimization"]["update_freq"]))
    processes = config["distributed_training"]["distributed_world_size"]
    return str(processes), str(config["dataset"]["max_tokens"]), batches
