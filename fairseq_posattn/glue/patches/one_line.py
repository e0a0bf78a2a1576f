"""Let fairseq's own programs end with one line when the user can mend the error.

The line is printed where Python would print the traceback. The errors that fairseq raises stay as
they are.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from types import TracebackType

from fairseq_posattn.io.command_line import TRACEBACK, foreseen, one_line

OF_FILES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
OF_FILES |= {errno.EIO, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EMFILE}


def let_hydra_raise() -> None:
    """Let hydra raise the errors of a program, whose traceback it would print itself."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")


def with_one_line(hook):
    """Wrap sys.excepthook to print one line instead of a traceback that would not help the user."""

    @functools.wraps(hook)
    def show(kind, error, trace):
        message = foreseen(error) if of_fairseq(trace) and is_of_input(error) else None
        if message is None or os.environ.get(TRACEBACK) == "1":
            return hook(kind, error, trace)
        sys.stdout.flush()
        print(one_line(f"error: {message}"), file=sys.stderr)

    return show


def of_fairseq(trace: TracebackType | None) -> bool:
    """Return whether one of fairseq's programs raised the error, and not a user's program that
    imports this package."""
    while trace is not None:
        if "fairseq_cli" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


def is_of_input(error: BaseException) -> bool:
    """Return whether the user can mend the error.

    Errors of files belong to the user, but those of networks and processes keep their traceback.
    """
    if not isinstance(error, OSError):
        return isinstance(error, Exception)
    return error.errno in OF_FILES or error.strerror is None
