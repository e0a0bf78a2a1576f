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
from support.processes import children, command_line

KILLS, SEED = int(os.environ.get("KILLS", "2")), int(os.environ.get("KILLS_SEED", "1"))
AT_WORK = ("another run is writing here", "another training")  # where what was started lives on

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
    runs: int = 0
    seconds: float = 0.0  # of an undisturbed run


def killed_at_random_moments(
    command_for: Callable[[Path], list],
    folder: Path,
    tally: Tally | None = None,
    alone: bool = False,
) -> Iterator[Path]:
    """The outputs of a command: of an undisturbed run, then of runs that are killed again and
    again, the command alone or, unless it is always killed `alone`, with its group.

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
            dice.uniform(0, tally.seconds), command_for(out), dice.random() < 0.5, alone
        ):
            tally.kills += 1
        assert not killed_after(PATIENCE, command_for(out))
        yield out
        tally.runs += 1
    if not quiet:
        print(f"\n{tally}")


def killed_after(seconds: float, command: list, group: bool = False, alone: bool = False) -> bool:
    """Return whether it had to be killed; all that it has started must then end, too.

    alone: what it has started is stopped before, so that nothing of it can end by itself.
    """
    with Background(command, alone=True) as background:
        end = time.monotonic() + seconds
        while time.monotonic() < end and background.is_running():
            background.look()
            time.sleep(0.02)
        alive = background.is_running()
        if alive and alone:
            background.seen |= stopped_family(background.process.pid)
        elif alive and group:
            with suppress(ProcessLookupError):
                os.killpg(background.process.pid, signal.SIGKILL)
        background.kill()
        assert alive or background.wait() == 0, background.printed()[-3000:]
        assert background.left_behind() == []
        return alive


def stopped_family(pid: int) -> set[int]:
    """Stop a recipe and all that it has started, but for the helper that is to end them."""
    found: set[int] = set()
    new = {pid} if any(map(is_helper, children(pid))) else set()  # else no command has begun yet
    while new:
        for process in new:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        found |= new
        young = {child for parent in found for child in children(parent)} - found
        new = {child for child in young if not is_helper(child)}
    return found


def is_helper(pid: int) -> bool:
    return b"descendants.py" in command_line(pid)


def is_refusal(printed: str) -> bool:
    """Whether the only error is one line which says that another process is at work there."""
    errors = [line for line in printed.splitlines() if line.startswith("error: ")]
    return len(errors) == 1 and any(text in errors[0] for text in AT_WORK)
