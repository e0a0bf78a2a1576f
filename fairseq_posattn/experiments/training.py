"""Train a run, or resume its training, and show the progress."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fairseq_posattn.experiments.commands import Command, Shell
from fairseq_posattn.experiments.machine import Machine, Share, cores, visible_devices
from fairseq_posattn.experiments.runs import Run, copy_trained
from fairseq_posattn.files.lock import TRAINING as TRAINING_LOCK
from fairseq_posattn.files.lock import wait_until_released
from fairseq_posattn.files.progress import ProgressDisplay
from fairseq_posattn.files.terminal import size_of
from fairseq_posattn.scoring.training_log import INSIDE, RESUMED, TRAIN, measured_in

RESET = "reset-dataloader"
PACKAGES = {"torch": ["torch"], "fairseq": ["ve-fairseq", "fairseq-fixed", "fairseq"]}
TOTAL = "total-num-update"  # the number of updates over which the learning rate decays


class LogReader:
    """Reads the lines that are appended to a log file after the reader was created."""

    def __init__(self, path: Path):
        self.path = path
        self.place = path.stat().st_size if path.exists() else 0
        self.rest = ""

    def new_lines(self) -> list[str]:
        """Return the complete lines appended since the last call."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.place)
                added = file.read()
        except FileNotFoundError:
            return []
        self.place += len(added)
        *lines, self.rest = (self.rest + added.decode("utf-8", "replace")).split("\n")
        return lines


@dataclass
class TrainingProgress:
    """The progress of a training run, read from its log; `str()` formats it for display.

    The remaining time is estimated only from the updates since training was last started or
    resumed.

    updates: total number of updates, or 0 if the options limit the epochs instead.
    """

    updates: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    epoch: int = 0
    first: tuple[float, int] | None = None
    valid: str = ""

    def read(self, lines: list[str]) -> None:
        """Update the progress from new lines of the log of fairseq-train."""
        for line in lines:
            if resumed := RESUMED.search(line):
                self.done = int(resumed[1])
            found = measured_in(line)
            if found is None:
                continue
            self.done = found.update
            self.first = self.first or (self.clock(), self.done)
            self.epoch = found.epoch or self.epoch
            if found.subset not in (INSIDE, TRAIN) and found.loss is not None:
                self.valid = f"valid loss {found.loss} after {self.done:,}"

    def __str__(self) -> str:
        if self.updates:
            parts = [f"update {self.done:,} of {self.updates:,}", self.valid, self.time_left()]
        else:
            parts = [f"epoch {self.epoch}, update {self.done:,}", self.valid]
        return ", ".join(filter(None, parts))

    def time_left(self) -> str:
        """Return the estimated remaining time, or an empty string if it is unknown."""
        if self.first is None or self.done <= self.first[1]:
            return ""
        begun, updates = self.first
        pace = (self.clock() - begun) / (self.done - updates)
        return f"{tqdm.format_interval(pace * max(0, self.updates - self.done))} left"


def train_once(
    experiment: Any, run: Run, command_of: Callable[[], Command], machine: Machine, share: Share
) -> None:
    """Train a run unless it is already finished.

    command_of: function that returns the training command.
    """
    shell = experiment.shell
    with locked_run(shell, run, machine):
        if shell.act(needs_training, experiment.progress, run, instead=True):
            train(experiment, run, command_of(), machine, share)


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


def train(experiment: Any, run: Run, command: Command, machine: Machine, share: Share) -> None:
    shell, display = experiment.shell, experiment.progress
    if f"--{RESET}" in command:
        display.finish(run.name, "processes or batches have changed, so the epoch restarts")
    log = run.folder / machine.log_name()
    progress, reader = TrainingProgress(run.record.updates), LogReader(log)

    def look() -> None:
        before = progress.time_left()
        progress.read(reader.new_lines())
        is_first = not before and bool(progress.time_left())  # show the first estimate at once
        display.show(run.name, str(progress), is_first)

    def finish() -> None:
        run.finish()
        look()
        display.finish(run.name, f"trained, {progress}")

    shell.act(lambda: run.record_start(described(machine, share, command)))
    shell.act(lambda: display.show(run.name, describe_start(run.folder), True))
    shell.run(command, log, share.environment(), look)
    shell.act(finish)


def needs_training(display: ProgressDisplay, run: Run) -> bool:
    """Record the start of a run; return whether it still needs to be trained."""
    if run.is_finished:
        display.finish(run.name, f"already trained ({run.folder})")
        return False
    if difference := run.record_start():
        display.finish(run.name, difference)
    if other := copy_trained(run):
        display.finish(run.name, f"already trained as {other}, which was copied")
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


def described(machine: Machine, share: Share, command: Sequence[object]) -> str:
    """Return the hardware, number of processes, precision and versions of a training run.

    command: the training command, which sets the precision.

    Example:

        Intel Xeon, 2 cores, 25.2 GB, no GPU; 1 process, fp32; Python 3.11.7, torch 2.13.0, ...
    """
    counts: Counter[str] = Counter()
    if not machine.cpu:
        import torch

        visible = visible_devices()
        for device in share.gpus or machine.devices():
            counts[torch.cuda.get_device_properties(visible.index(device)).name] += 1
    gpus = " + ".join(f"{count} x {name}" for name, count in counts.items()) or "no GPU"
    memory = size_of(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    processes = f"{machine.world()} process{'es' * (machine.world() > 1)}"
    precision = next((name for name in ("bf16", "fp16") if f"--{name}" in command), "fp32")
    of_cores = f"{cores()} core{'s' * (cores() > 1)}"
    programs = ", ".join([f"Python {platform.python_version()}", *versions()])
    return f"{processor()}, {of_cores}, {memory}, {gpus}; {processes}, {precision}; {programs}"


def processor() -> str:
    """Return the model name of the processor or, if it is unknown, the architecture."""
    if (path := Path("/proc/cpuinfo")).exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> list[str]:
    """Return the versions of torch and of fairseq, which is distributed under several names."""
    found = []
    for package, names in PACKAGES.items():
        for name in names:
            try:
                found.append(f"{package} {version(name)}")
            except PackageNotFoundError:
                continue
            break
    return found
