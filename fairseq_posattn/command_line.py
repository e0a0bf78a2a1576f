"""What the steps share: one line for an error that the user can mend, and a progress bar."""

import errno
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from fairseq_posattn.files import InputError

T = TypeVar("T")


def run(main: Callable[[], None]) -> NoReturn:
    """Run a step; a fault of its input or of the disk ends it with one line and exit code 1."""
    try:
        main()
    except (InputError, OSError) as error:
        print(f"error: {describe(error)}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def describe(error: Exception) -> str:
    """The line that a user reads for an error."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.errno == errno.ENOSPC:
        return f"{error.filename}: no space left on the disk; free some and start this step again"
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def progress(items: Iterable[T], total: int | None = None, unit: str = " sentences") -> Iterable[T]:
    """The same items, with a progress bar where somebody looks at the terminal."""
    from tqdm import tqdm

    return tqdm(items, total=total, unit=unit, unit_scale=True, disable=None)
