"""Train the models of a translation recipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.lock import TRAINING as TRAINING_LOCK
from fairseq_posattn.io.lock import wait_until_released
from fairseq_posattn.lab.experiments.allowed import Options
from fairseq_posattn.lab.experiments.board import LogReader, TrainingProgress
from fairseq_posattn.lab.experiments.commands import Command, called
from fairseq_posattn.lab.experiments.hardware import described
from fairseq_posattn.lab.experiments.machine import Machine, Share, visible_devices
from fairseq_posattn.lab.experiments.preparing import check_texts
from fairseq_posattn.lab.experiments.recipe import (
    arguments,
    presets,
    refuse_chosen,
    refuse_unknown,
)
from fairseq_posattn.lab.experiments.recipe_content import Row, Size
from fairseq_posattn.lab.experiments.runs import (
    Run,
    RunRecord,
    by_option,
    fingerprints,
    named_files,
    take_over,
)
from fairseq_posattn.lab.experiments.sizes import size_for
from fairseq_posattn.lab.experiments.workplace import Place, Plan, Workplace
from fairseq_posattn.trees.sentence import KINDS

READ_IN_TRAINING = ("train.*", "valid.*", "dict.*.txt")
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
RESET = "reset-dataloader"
TOTAL = "total-num-update"  # the number of updates over which the learning rate decays
OURS = {  # options that the engine sets itself, and what to do instead
    "--seed": "use --seed or --seeds before --",
    "--max-update": "use --updates before --",
    "--save-dir": "use --work before --",
}


def run_of(place: Workplace, row: Row, seed: int, plan: Plan) -> Run:
    """Return the run of a model with the given seed.

    The run is identified by its options and data. Raises InputError if the data do not exist or
    if the texts have changed since the data were built.
    """
    refuse_chosen(plan.training, OURS)
    data = place.data(row.trees)
    if not place.shell.is_there(data):
        raise InputError(f"{data}: no data; run {called('prepare', place.recipe.called)} first")
    place.shell.act(check_texts, place, row.trees)
    options = arguments(dict(sorted(options_of(place, row, seed, plan).items()))) + [*plan.training]
    if plan.precision:
        options += ["--precision", plan.precision]
    files = fingerprints(place.shards(row.trees), READ_IN_TRAINING)
    files |= named_files(options)
    steps = updates(place, row, plan)
    record = RunRecord(
        *(row.title, row.size, seed, steps, row.trees, options, files), tested=row.tested
    )
    return Run(place.runs, record)


def updates(place: Workplace, row: Row, plan: Plan) -> int:
    return plan.updates or place.content.sizes[row.size].updates


def options_of(place: Workplace, row: Row, seed: int, plan: Plan) -> dict[str, Any]:
    """Return the options of fairseq-train that do not depend on the machine."""
    size, training = place.content.sizes[row.size], place.content.training
    found = options_of_size(row.model, size, {**training, **size.training, **row.training})
    if plan.updates and TOTAL in found:
        found[TOTAL] = plan.updates
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


def command_of(
    place: Workplace, run: Run, row: Row, plan: Plan, machine: Machine
) -> list[str | Path]:
    size = place.content.sizes[row.size]
    given = options_of(place, row, run.record.seed, plan)
    options = {
        **on_machine(given, machine, size, run.record.updates),
        "save-dir": run.folder,
        "tensorboard-logdir": run.folder / "tensorboard",
        "log-format": "simple",
        "log-interval": 100,
    }
    data = os.pathsep.join(map(str, place.shards(row.trees)))
    task = arguments({**place.task, **options})
    again = place.shell.act(resets, run.folder, options, plan.training, instead=[])
    return [*machine.launch(place.recipe.name), data, *task, *again, *plan.training]


def train_once(
    place: Place, run: Run, command_of: Callable[[], Command], machine: Machine, share: Share
) -> None:
    """Train a run unless it is already finished.

    command_of: function that returns the training command.
    """
    with alone_in(place, run, machine):
        if place.shell.act(begin, place, run, instead=True):
            train(place, run, command_of(), machine, share)


@contextmanager
def alone_in(place: Place, run: Run, machine: Machine) -> Iterator[None]:
    """Lock the folder of a run; wait while another process holds the lock.

    A run is not locked if it is finished or if several machines train it together.
    """
    if machine.nodes > 1 or run.is_finished:
        yield
        return
    with place.shell.alone(run.folder / "training"):
        place.shell.act(wait_until_released, run.folder / TRAINING_LOCK, place.shell.pause)
        yield


def train(place: Place, run: Run, command: Command, machine: Machine, share: Share) -> None:
    if f"--{RESET}" in command:
        place.board.finish(run.name, "processes or batches have changed, so the epoch restarts")
    log = run.folder / machine.log_name()
    progress, reader = TrainingProgress(run.record.updates), LogReader(log)

    def look() -> None:
        before = progress.time_left()
        progress.read(reader.new_lines())
        is_first = not before and bool(progress.time_left())  # show the first estimate at once
        place.board.show(run.name, str(progress), is_first)

    def finish() -> None:
        run.finish()
        look()
        place.board.finish(run.name, f"trained, {progress}")

    place.shell.act(lambda: run.begin(described(machine, share, command)))
    place.shell.act(lambda: place.board.show(run.name, beginning(run.folder), True))
    place.shell.run(command, log, share.environment(), look)
    place.shell.act(finish)


def begin(place: Place, run: Run) -> bool:
    """Record the start of a run; return whether it still needs to be trained."""
    if run.is_finished:
        place.board.finish(run.name, f"already trained ({run.folder})")
        return False
    if told := run.begin():
        place.board.finish(run.name, told)
    if other := take_over(run):
        place.board.finish(run.name, f"already trained as {other}, which was copied")
    return other is None


def beginning(folder: Path) -> str:
    """Describe whether a run starts from scratch or resumes from its last checkpoint."""
    update = None
    if any(folder.glob("checkpoint*.pt")):
        from fairseq_posattn import plugin  # noqa: F401  (it loads checkpoints safely)
        from fairseq_posattn.glue.patches.atomic import newest, updates

        last = newest(folder, "")
        update = last and updates(last)
    how = f"continues from update {update:,}" if update else "starts training"
    return f"{how} in {folder}"


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
