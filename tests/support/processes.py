"""What Linux says of a process."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def children(parent: int) -> Iterator[int]:
    """Yield the numbers of the processes that another one has started and that still run."""
    for folder in Path("/proc").glob("[0-9]*"):
        with unless_gone():
            state, its_parent = (folder / "stat").read_text().rpartition(") ")[2].split()[:2]
            if int(its_parent) == parent and state != "Z":
                yield int(folder.name)


def is_alive(pid: int) -> bool:
    with unless_gone():
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def command_line(pid: int) -> bytes:
    with unless_gone():
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def ignores(pid: int, number: int) -> bool:
    """Return whether a signal does nothing to a process."""
    with unless_gone():
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        masks = [line.split()[1] for line in status if line.startswith(("SigBlk", "SigIgn"))]
        return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
    return True


@contextmanager
def unless_gone() -> Iterator[None]:
    """Go on where a process has ended while it was looked at."""
    with suppress(FileNotFoundError, ProcessLookupError):
        yield
