"""Run a command; if it fails, print the error as one line and exit with code 1."""

import errno
import logging
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fairseq_posattn.errors import InputError

LONGEST = 300  # error messages are shortened to this many characters
TRACEBACK = "POSATTN_TRACEBACK"  # set it to 1 to print the traceback of every error
UNEXPECTED = "unexpected error of the program"
UNWRITABLE: dict[int | None, str] = {
    errno.ENOSPC: "there is no space left on the disk; free some space and run the command again",
    errno.EDQUOT: "your disk quota is exceeded; free some space and run the command again",
    errno.EFBIG: "the file exceeds the maximum file size; raise the limit (ulimit -f), or write to "
    "another file system",
    errno.EROFS: "the file system is read-only; write to another folder",
}
# An error in a worker process arrives as the text of its traceback; the last line is the error.
IN_WORKER = "Traceback (most recent call last)"
FORESEEN = re.compile(
    r"(fairseq_posattn\.[\w.]+|OSError|(FileNotFound|Permission|IsADirectory)Error)"
    r": (\[Errno \d+\] )?(?P<message>.*)"
)


def run(main: Callable[[], None]) -> NoReturn:
    """Run a command and exit with code 0, or print one line `error: ...` and exit with code 1.

    This function also configures logging with the default level, WARNING, so that a module of
    fairseq cannot set a lower level.
    """
    logging.basicConfig(format="%(levelname)s | %(name)s | %(message)s")
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        print(error_line(error), file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def error_line(error: Exception) -> str:
    """Return the line to print. The traceback of an unexpected error is saved to a file."""
    if asked := os.environ.get(TRACEBACK) == "1":
        traceback.print_exception(error)
    if message := foreseen(error):
        return one_line(f"error: {message}")
    remedy = "" if asked else f"; {keep_traceback(error)}"
    text = last_line(error) if IN_WORKER in str(error) else f"{type(error).__name__}: {error}"
    return one_line(f"error: {UNEXPECTED} ({place_of(error)}): {text}", remedy)


def foreseen(error: Exception) -> str | None:
    """Return the message of an error that the user can fix, or None if it is unexpected."""
    if isinstance(error, InputError | OSError):
        return describe(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory; free some, or use smaller batches"
    match = FORESEEN.fullmatch(last_line(error)) if IN_WORKER in str(error) else None
    return match and match["message"]


def describe(error: Exception) -> str:
    """Return a message that states what went wrong, where, and how to fix it."""
    if IN_WORKER in str(error):  # raised in one of fairseq's data-loading workers
        return last_line(error).partition(": ")[2]
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{UNWRITABLE.get(error.errno, error.strerror)}"


def last_line(error: Exception) -> str:
    return str(error).rstrip().rpartition("\n")[2]


def one_line(text: str, end: str = "") -> str:
    """Return text + end as one line of at most LONGEST printable characters.

    If the line is longer, its middle is omitted. The start contains the file name; the end, from
    the first semicolon on, contains the remedy.
    """
    text = re.sub(r"\s*\n\s*", " ", text.strip())
    shown = "".join(char if char.isprintable() else escaped(char) for char in text + end)
    if len(shown) <= LONGEST:
        return shown
    remedy = min(len(shown.partition("; ")[2]), LONGEST * 2 // 3)
    rest = max(LONGEST * 2 // 5, len(end), remedy)
    return f"{shown[: LONGEST - rest - 3]}...{shown[-rest:]}"


def escaped(char: str) -> str:
    """Return the Python escape sequence of a character, such as \\x1b."""
    return char.encode("unicode_escape").decode("ascii")


def place_of(error: Exception) -> str:
    """Return the file and line of the code that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"


def keep_traceback(error: Exception) -> str:
    """Save the traceback to a file and return its path.

    If it cannot be saved, return instructions for printing it instead.
    """
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="posattn-", suffix=".txt", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            file.write(text)
    except OSError:
        return f"set {TRACEBACK}=1 to see the traceback"
    return f"traceback: {file.name}"
