"""A function that is killed before one of its changes of the disk."""

import os
import shutil
import signal
from collections.abc import Callable

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
