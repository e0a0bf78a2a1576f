"""A function is killed before one of its changes of the disk, a command at random moments.

KILLS=10 KILLS_SEED=7 python -m pytest --all -s -k "random_moments" kills each command ten times;
`python -m tests.kills` kills more programs, and prints a table.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from support.background import Background
from support.commands import PATIENCE

KILLS, SEED = int(os.environ.get("KILLS", "2")), int(os.environ.get("KILLS_SEED", "1"))
AT_WORK = ("another run is at work", "another training")  # where what was started lives on

CHANGES = [(os, name) for name in ("mkdir", "rename", "replace", "fsync", "unlink", "rmdir")]
CHANGES.append((shutil, "copyfileobj"))


def killed_at(number: int, function: Callable, *args) -> bool:
    """Call it in a fork that kills itself before its n-th change; whether it came so far."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        left = number

        def counted(change: Callable) -> Callable:
            def change_or_end(*args, **kwargs):
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return change(*args, **kwargs)

            return change_or_end

        for module, name in CHANGES:
            setattr(module, name, counted(getattr(module, name)))
        function(*args)
    finally:
        os._exit(0)


@dataclass
class Tally:
    """How often a command is to be killed, and what came of it."""

    wanted: int = KILLS
    seed: int = SEED
    kills: int = 0
    restarts: int = 0
    refused: int = 0  # of the restarts, because what the killed one had started was still at work
    runs: int = 0
    seconds: float = 0.0  # of an undisturbed run


def killed_at_random_moments(
    command_for: Callable[[Path], list], folder: Path, tally: Tally | None = None
) -> Iterator[Path]:
    """The outputs of a command: of an undisturbed run, then of runs that are killed again and
    again, the command alone or with all that it has started.

    A run may end before it is killed often enough; then there is another one with its own output.
    """
    quiet, tally = tally is not None, tally or Tally()
    begin = time.monotonic()
    assert not killed_after(PATIENCE, command_for(folder / "whole"))
    tally.seconds = time.monotonic() - begin
    yield folder / "whole"
    dice = random.Random(f"{tally.seed} {folder.name}")
    while tally.kills < tally.wanted:
        out = folder / f"killed{tally.runs}"
        while tally.kills < tally.wanted and killed_after(
            dice.uniform(0, tally.seconds), command_for(out), dice.random() < 0.5, tally
        ):
            tally.kills += 1
            tally.restarts += 1
        assert not killed_after(PATIENCE, command_for(out), tally=tally)
        yield out
        tally.runs += 1
    if not quiet:
        print(f"\n{tally}")


def killed_after(
    seconds: float, command: list, group: bool = False, tally: Tally | None = None
) -> bool:
    """Return whether it had to be killed; its workers then die, too, with the group or by
    themselves.

    The commands of a recipe outlive it for a while. What is started meanwhile may be refused, and
    is then started again.
    """
    with Background(command, alone=True) as background:
        end = time.monotonic() + seconds
        while time.monotonic() < end and background.is_running():
            background.look()
            time.sleep(0.02)
        alive = background.is_running()
        if alive and group:
            with suppress(ProcessLookupError):
                os.killpg(background.process.pid, signal.SIGKILL)
        background.kill()
        if alive or background.wait() == 0:
            assert tally is not None or background.left_behind() == []
            return alive
        printed = background.printed()
    assert tally is not None and is_refusal(printed), printed[-3000:]
    tally.refused += 1
    tally.restarts += 1
    time.sleep(0.5)
    return killed_after(seconds, command, group, tally)


def is_refusal(printed: str) -> bool:
    """Whether the only error is one line which says that another process is at work there."""
    errors = [line for line in printed.splitlines() if line.startswith("error: ")]
    return len(errors) == 1 and any(text in errors[0] for text in AT_WORK)
