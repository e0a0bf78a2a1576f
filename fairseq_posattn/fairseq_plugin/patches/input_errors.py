"""Report invalid input in one line where fairseq's programs print a traceback or an assertion.

Wrappers for sys.excepthook and ArgumentParser.error print this line.
"""

import errno
import os
import re
import sys
from types import TracebackType

from fairseq import utils

from fairseq_posattn.errors import InputError, names_like
from fairseq_posattn.fairseq_plugin.patches.refusals import refusal
from fairseq_posattn.files.command_line import TRACEBACK, foreseen, one_line
from fairseq_posattn.files.paths import refuse_split_path

TOO_LONG = re.compile(r"Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*), skip")
CHOICE = re.compile(r"argument (--[^/\s]+)\S*: invalid choice: '(.*?)' \(choose from ", re.DOTALL)
UNKNOWN = re.compile(r"unrecognized arguments: .*?(?P<name>--[^\s=]+)", re.DOTALL)
# file errors that the user can fix
OF_FILES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}
OF_FILES |= {errno.EIO, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EMFILE}


def without_usage(error, parser, message):
    """Wrapper for ArgumentParser.error that prints one line.

    argparse itself would print 115 lines of usage and all valid choices.
    """
    options = parser._option_string_actions  # argparse has no public list of options
    if "--no-progress-bar" not in options:  # not a parser of fairseq
        return error(parser, message)
    if (found := CHOICE.match(message)) and found[1] in options:
        names = map(str, options[found[1]].choices)
        message = f"{found[1]}: there is no '{found[2]}'; {names_like(found[2], names)}"
    elif found := UNKNOWN.match(message):
        message += f"; {names_like(found['name'], options)}"
    message = message.replace("invalid <lambda> value", "invalid value")
    parser.exit(2, f"{one_line(f'error: {message}')}\n")


def whole_paths(split_paths, paths, separator=os.pathsep):
    """Wrapper for utils.split_paths that raises an InputError for an existing path with a colon.

    fairseq splits --path and data folders at colons.
    """
    if "://" not in paths:
        refuse_split_path(paths, separator)
    return split_paths(paths, separator)


def data_found(setup_task, cfg, **kwargs):
    """Wrapper for tasks.setup_task that reports which data folder or file is missing."""
    try:
        return setup_task(cfg, **kwargs)
    except Exception as error:
        data = utils.split_paths(getattr(cfg, "data", None) or "")[0]
        missing = isinstance(error, FileNotFoundError) and error.filename
        if data and missing and not os.path.exists(data):
            found = f"{data}: there is no such folder"
        elif data and missing and str(missing).startswith(data):
            found = f"{missing}: there is no such file"
        elif data and str(error).startswith("Could not infer language pair"):
            found = f"{data}: the folder contains no data of a language pair"
        else:
            raise
    raise InputError(
        f"{found}; give the path of a folder that posattn prepare or posattn binarize has written; "
        "if it contains several language pairs, choose one with --source-lang and --target-lang"
    )


def fits_batches(
    batch_by_size, indices, num_tokens_fn, num_tokens_vec=None, max_tokens=None, *args, **kwargs
):
    """Wrapper for data_utils.batch_by_size that reports sentences longer than --max-tokens.

    fairseq itself fails with an assertion in this case.
    """
    if not len(indices):  # all sentences were too long for the model
        return []
    try:
        return batch_by_size(indices, num_tokens_fn, num_tokens_vec, max_tokens, *args, **kwargs)
    except AssertionError:
        longest = max(num_tokens_fn(index) for index in indices)
        if not max_tokens or longest <= max_tokens:
            raise
    raise InputError(
        f"--max-tokens {max_tokens} is too small, because the longest sentence has {longest} "
        f"pieces; give at least --max-tokens {longest}, or --batch-size instead"
    )


def has_a_batch(first_batch: property) -> property:
    """Return a replacement for the property EpochBatchIterator.first_batch.

    If there are no batches, an InputError explains why fairseq may have dropped all sentences.
    """

    def checked(iterator):
        if not iterator.frozen_batches:
            raise InputError(
                "fairseq dropped all sentences, because they exceed --max-source-positions or "
                "--max-target-positions, or because there are fewer than "
                "--required-batch-size-multiple (default: 8); use shorter sentences, more "
                "sentences, or --required-batch-size-multiple 1"
            )
        return first_batch.__get__(iterator)

    return property(checked)


def fits_model(filter_indices, task, *args, **kwargs):
    """Wrapper for FairseqTask.filter_indices_by_size that reports which sentence is too long."""
    try:
        left = filter_indices(task, *args, **kwargs)
    except Exception as error:
        found = TOO_LONG.match(str(error))
        if found is None:
            raise
    else:
        if not len(left) and not hasattr(task, "lines_before"):  # other new lines may fit
            raise InputError(
                "all sentences of the data exceed --max-source-positions or "
                "--max-target-positions; use shorter ones"
            )
        return left
    number, size, longest = found.groups()
    raise InputError(
        f"{place(task, int(number))} has {pieces(size)}, but the model accepts at most "
        f"{pieces(longest)}; shorten it, or skip such sentences with "
        "--skip-invalid-size-inputs-valid-test"
    )


def place(task, number: int) -> str:
    """Return a description of the position of a sentence in the input or in the data."""
    if hasattr(task, "lines_before"):
        return f"line {task.lines_before + number + 1} of the input"
    return f"sentence {number} of the data (counted from 0)"


def pieces(size: str) -> str:
    """Return a description of sizes that fairseq prints, such as `7` or `(np.int64(7), 0)`.

    A target size of 0 means that there is no target.
    """
    source, *target = re.findall(r"\b\d+\b", size)
    return f"{source} pieces" if target in ([], ["0"]) else f"{source} and {target[0]} pieces"


def with_one_line(hook, kind, error, trace):
    """Wrapper for sys.excepthook that prints one line instead of a traceback for invalid input."""
    message = None
    if of_fairseq(trace) and is_of_input(error):
        message = foreseen(error) or refusal(error)
    if message is None or os.environ.get(TRACEBACK) == "1":
        return hook(kind, error, trace)
    sys.stdout.flush()
    print(one_line(f"error: {message}"), file=sys.stderr)


def of_fairseq(trace: TracebackType | None) -> bool:
    """Return whether the error occurred in one of fairseq's programs, not in user code."""
    while trace is not None:
        if "fairseq_cli" in trace.tb_frame.f_code.co_filename:
            return True
        trace = trace.tb_next
    return False


def is_of_input(error: BaseException) -> bool:
    """Return whether the user can fix the error.

    File errors count as fixable. Network and process errors do not, so their traceback is printed.
    """
    if not isinstance(error, OSError):
        return isinstance(error, Exception)
    return error.errno in OF_FILES or error.strerror is None
