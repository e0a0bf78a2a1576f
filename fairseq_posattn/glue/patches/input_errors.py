"""Inputs that fairseq's programs answer with a traceback or an assertion: here with one line."""

from __future__ import annotations

import functools
import os
import re

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.lists import refuse_split_path

TOO_LONG = re.compile(r"Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*), skip")


def whole_paths(split_paths):
    """utils.split_paths, of --path and of folders of data."""

    @functools.wraps(split_paths)
    def split_or_refuse(paths, separator=os.pathsep):
        if "://" not in paths:
            refuse_split_path(paths, separator)
        return split_paths(paths, separator)

    return split_or_refuse


def fits_batches(batch_by_size):
    """data_utils.batch_by_size, which asserts that --max-tokens is at least the longest length."""

    @functools.wraps(batch_by_size)
    def batches(indices, num_tokens_fn, num_tokens_vec=None, max_tokens=None, *args, **kwargs):
        try:
            return batch_by_size(
                indices, num_tokens_fn, num_tokens_vec, max_tokens, *args, **kwargs
            )
        except AssertionError:
            longest = max(num_tokens_fn(index) for index in indices)
            if not max_tokens or longest <= max_tokens:
                raise
        raise InputError(
            f"--max-tokens {max_tokens}: the longest sentence has {longest} pieces; "
            f"give at least --max-tokens {longest}, or --batch-size instead"
        )

    return batches


def fits_model(filter_indices):
    """FairseqTask.filter_indices_by_size, which refuses a sentence that is too long."""

    @functools.wraps(filter_indices)
    def check(task, *args, **kwargs):
        try:
            return filter_indices(task, *args, **kwargs)
        except Exception as error:
            found = TOO_LONG.match(str(error))
            if found is None:
                raise
        number, size, longest = found.groups()
        raise InputError(
            f"{place(task, int(number))}: {pieces(size)}, but at most {pieces(longest)} "
            "are taken; shorten it, or leave such sentences out with "
            "--skip-invalid-size-inputs-valid-test"
        )

    return check


def place(task, number: int) -> str:
    """Where the user finds a sentence: in the lines of new text, or in the data."""
    if hasattr(task, "lines_before"):
        return f"line {task.lines_before + number + 1} of the input"
    return f"sentence {number} of the data (counted from 0)"


def pieces(size: str) -> str:
    """Numbers as fairseq prints them: `7`, `(np.int64(7), 0)`; 0 says that there is no target."""
    source, *target = re.findall(r"\b\d+\b", size)
    return f"{source} pieces" if target in ([], ["0"]) else f"{source} and {target[0]} pieces"


def lines_counted(get_tokens):
    """FairseqTask.get_interactive_tokens_and_lengths: note how many lines came before these."""

    @functools.wraps(get_tokens)
    def counted(task, lines, encode_fn):
        task.lines_before = vars(task).get("lines_so_far", 0)
        task.lines_so_far = task.lines_before + len(lines)
        return get_tokens(task, lines, encode_fn)

    return counted
