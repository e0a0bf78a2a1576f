"""The runs of a recipe, and the commands that train them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import Options
from fairseq_posattn.experiments.commands import Command
from fairseq_posattn.experiments.machine import Machine, visible_devices
from fairseq_posattn.experiments.recipe import arguments, presets, refuse_chosen, refuse_unknown
from fairseq_posattn.experiments.recipe_content import Row, Size
from fairseq_posattn.experiments.runs import Run, RunRecord, by_option, fingerprints, named_files
from fairseq_posattn.experiments.sizes import size_for
from fairseq_posattn.experiments.training import RESET
from fairseq_posattn.experiments.workspace import UPDATES, Workspace, options_of_size
from fairseq_posattn.trees.sentence import KINDS

OURS = {  # options that an experiment sets itself, and what to do instead
    "--seed": "use --seed or --seeds before --",
    "--max-update": "use --updates before --",
    "--save-dir": "use --work before --",
}
BATCHES = {"distributed-world-size": 1, "max-tokens": None, "update-freq": 1}  # and the defaults


def run_of(experiment: Workspace, row: Row, seed: int) -> Run:
    """Return the run that is identified by its options and by the files that it reads."""
    training, precision = experiment.settings.rest, experiment.settings.precision
    refuse_chosen(training, OURS)
    options, size = experiment.options_of(row, seed), experiment.content.sizes.get(row.size)
    updates = experiment.settings.updates or (size.updates if size else options.get(UPDATES, 0))
    words = [*arguments(dict(sorted(options.items()))), *training]
    words += ["--precision", precision] if precision else []
    shards = experiment.shards(row, seed)
    files = fingerprints(shards, experiment.read_in_training) | named_files(words)
    record = RunRecord(row.title, row.size, seed, updates, row.trees, words, files)
    return Run(experiment.runs, replace(record, tested=row.tested))


def command_of(experiment: Workspace, row: Row, run: Run, machine: Machine) -> Command:
    """Return the command that trains a run."""
    record, size = run.record, experiment.content.sizes.get(row.size)
    options = {
        **experiment.task,
        "num-workers": 0 if experiment.small else None,
        "log-format": "simple",
        "log-interval": 100,
        **on_machine(experiment.options_of(row, record.seed), machine, record.updates, size),
        "save-dir": run.folder,
        **experiment.outputs(run.folder),
    }
    training = experiment.settings.rest
    again = experiment.shell.act(resets, run.folder, options, training, instead=[])
    data = os.pathsep.join(map(str, experiment.shards(row, record.seed)))
    return [*machine.launch(experiment.name), data, *arguments(options), *again, *training]


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
    return arguments(on_machine(options, machine, size.updates, size))


def on_machine(
    options: Options, machine: Machine, updates: int, size: Size | None
) -> dict[str, Any]:
    """Add the options for the machine, and for batches, updates and checkpoints.

    updates: number of updates; 0 if the options limit the number of epochs instead.
    """
    found: dict[str, Any] = {**options}
    if "batch-tokens" in found:
        found |= machine.batch(found.pop("batch-tokens"))
    else:
        if "batch-size" in found:
            found["batch-size"] = shared_out(found["batch-size"], machine.world())
        if "max-tokens" in found:
            found["max-tokens"] //= machine.world()
    found |= {UPDATES: updates or None, "no-epoch-checkpoints": True}
    if size:
        found["save-interval-updates"] = save_interval(size.save_every, size.averaged, updates)
        found["keep-interval-updates"] = size.averaged
    return {**found, **machine.options()}


def shared_out(sentences: int, processes: int) -> int:
    """Return the number of sentences per process; raise an InputError if it is not an integer."""
    if sentences % processes:
        raise InputError(
            f"{processes} processes cannot share the {sentences} sentences of a batch equally; "
            f"give --gpus (or --processes) a divisor of {sentences}"
        )
    return sentences // processes


def training_pairs(data: Path) -> int:
    """Return the number of sentence pairs in the training set of a data folder."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    for path in data.glob("train.*-*.*.bin"):
        _, languages, language, *more = path.stem.split(".")
        if languages.startswith(f"{language}-") and not more:  # .tree.bin contains the trees
            return len(MMapIndexedDataset(str(path.with_suffix(""))))
    raise InputError(f"{data}: no training data; use a data folder written by posattn prepare")


def save_interval(every: int, averaged: int, updates: int) -> int:
    """Return the number of updates between checkpoints, so that at least `averaged` are saved."""
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
    chosen, ours = by_option(given), {**BATCHES, **options}
    now = tuple(" ".join(chosen.get(f"--{name}", [str(ours[name])])) for name in BATCHES)
    return [] if batches_of(last) == now else [f"--{RESET}"]


def batches_of(checkpoint: Path) -> tuple[str, str, str]:
    """Read distributed-world-size, max-tokens and update-freq from a checkpoint."""
    from fairseq.checkpoint_utils import load_checkpoint_to_cpu

    from fairseq_posattn import plugin  # noqa: F401  (it loads checkpoints safely)

    config = load_checkpoint_to_cpu(str(checkpoint))["cfg"]
    batches = ",".join(map(str, config["optimization"]["update_freq"]))
    processes = config["distributed_training"]["distributed_world_size"]
    return str(processes), str(config["dataset"]["max_tokens"]), batches
