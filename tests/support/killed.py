"""A function is killed before one of its changes of the disk, a command at random moments.

KILLS=10 KILLS_SEED=7 python -m pytest --all -s -k "random_moments" kills each command ten times.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.background import Background
from support.commands import PATIENCE

KILLS, SEED = int(os.environ.get("KILLS", "2")), int(os.environ.get("KILLS_SEED", "1"))

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


def killed_at_random_moments(command_for: Callable[[Path], list], folder: Path) -> Iterator[Path]:
    """The outputs of a command: of an undisturbed run, then of runs that are killed KILLS times.

    A run may end before it is killed often enough; then there is another one with its own output.
    """
    begin = time.monotonic()
    assert not killed_after(PATIENCE, command_for(folder / "whole"))
    longest = time.monotonic() - begin
    yield folder / "whole"
    dice, kills, outputs = random.Random(f"{SEED} {folder.name}"), 0, 0
    while kills < KILLS:
        out = folder / f"killed{outputs}"
        while kills < KILLS and killed_after(dice.uniform(0, longest), command_for(out)):
            kills += 1
        assert not killed_after(PATIENCE, command_for(out))
        yield out
        outputs += 1
    print(f"\n{kills} kills in {outputs} runs; an undisturbed one takes {longest:.1f} s")


def killed_after(seconds: float, command: list) -> bool:
    """Return whether it had to be killed; then its workers have died, too."""
    with Background(command) as background:
        end = time.monotonic() + seconds
        while time.monotonic() < end and background.is_running():
            background.look()
            time.sleep(0.02)
        alive = background.is_running()
        background.kill()
        assert alive or background.wait() == 0, background.printed()[-3000:]
        assert background.left_behind() == []
    return alive
