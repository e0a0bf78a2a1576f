"""fairseq's own programs end with one line for an error that the user can mend.

The line is printed where Python would print the traceback, which fairseq's errors keep.
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
    """sys.excepthook: a line in the place of the traceback, if that would be of no use."""

    @functools.wraps(hook)
    def show(kind, error, trace):
        message = foreseen(error) if of_fairseq(trace) and is_of_input(error) else None
        if message is None or os.environ.get(TRACEBACK) == "1":
            return hook(kind, error, trace)
        sys.stdout.flush()
        print(one_line(f"error: {message}"), file=sys.stderr)

    return show


def of_fairseq(trace: TracebackType | None) -> bool:
    """Whether a program of fairseq raised it, not one of the user's that imports this package."""
    while trace is not None:
        if "fairseq_cli" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


def is_of_input(error: BaseException) -> bool:
    """Errors of files belong to the user; those of networks and processes keep their traceback."""
    if not isinstance(error, OSError):
        return isinstance(error, Exception)
    return error.errno in OF_FILES or error.strerror is None
