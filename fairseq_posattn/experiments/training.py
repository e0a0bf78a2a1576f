"""Train a run, or resume its training, and show the progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq_posattn.experiments.board import Board, LogReader, TrainingProgress
from fairseq_posattn.experiments.commands import Command, Shell
from fairseq_posattn.experiments.machine import Machine, Share, described
from fairseq_posattn.experiments.runs import Run, copy_trained
from fairseq_posattn.files.lock import TRAINING as TRAINING_LOCK
from fairseq_posattn.files.lock import wait_until_released

RESET = "reset-dataloader"
TOTAL = "total-num-update"  # the number of updates over which the learning rate decays


def train_once(
    shell: Shell,
    board: Board,
    run: Run,
    command_of: Callable[[], Command],
    machine: Machine,
    share: Share,
) -> None:
    """Train a run unless it is already finished.

    command_of: function that returns the training command.
    """
    with locked_run(shell, run, machine):
        if shell.act(needs_training, board, run, instead=True):
            train(shell, board, run, command_of(), machine, share)


@contextmanager
def locked_run(shell: Shell, run: Run, machine: Machine) -> Iterator[None]:
    """Lock the folder of a run; wait while another process holds the lock.

    A run is not locked if it is finished or if several machines train it together.
    """
    if machine.nodes > 1 or run.is_finished:
        yield
        return
    with shell.locked(run.folder / "training"):
        shell.act(wait_until_released, run.folder / TRAINING_LOCK, shell.pause)
        yield


def train(
    shell: Shell, board: Board, run: Run, command: Command, machine: Machine, share: Share
) -> None:
    if f"--{RESET}" in command:
        board.finish(run.name, "processes or batches have changed, so the epoch restarts")
    log = run.folder / machine.log_name()
    progress, reader = TrainingProgress(run.record.updates), LogReader(log)

    def look() -> None:
        before = progress.time_left()
        progress.read(reader.new_lines())
        is_first = not before and bool(progress.time_left())  # show the first estimate at once
        board.show(run.name, str(progress), is_first)

    def finish() -> None:
        run.finish()
        look()
        board.finish(run.name, f"trained, {progress}")

    shell.act(lambda: run.record_start(described(machine, share, command)))
    shell.act(lambda: board.show(run.name, describe_start(run.folder), True))
    shell.run(command, log, share.environment(), look)
    shell.act(finish)


def needs_training(board: Board, run: Run) -> bool:
    """Record the start of a run; return whether it still needs to be trained."""
    if run.is_finished:
        board.finish(run.name, f"already trained ({run.folder})")
        return False
    if difference := run.record_start():
        board.finish(run.name, difference)
    if other := copy_trained(run):
        board.finish(run.name, f"already trained as {other}, which was copied")
    return other is None


def describe_start(folder: Path) -> str:
    """Describe whether a run starts from scratch or resumes from its last checkpoint."""
    update = None
    if any(folder.glob("checkpoint*.pt")):
        from fairseq_posattn import plugin  # noqa: F401  (it loads checkpoints safely)
        from fairseq_posattn.fairseq_plugin.patches.atomic import newest, updates

        last = newest(folder, "")
        update = last and updates(last)
    how = f"continues from update {update:,}" if update else "starts training"
    return f"{how} in {folder}"
