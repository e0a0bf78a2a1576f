"""Check lists of paths in one argument: fairseq splits them at a character that paths may hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations

from fairseq_posattn.errors import InputError


def refuse_split_path(
    paths: str, separator: str, exists: Callable[[str], bool] = os.path.exists
) -> None:
    """Refuse a path that fairseq would take for several, because the separator is part of it."""
    parts = paths.split(separator)
    if all(map(exists, parts)):
        return
    for start, end in combinations(range(len(parts) + 1), 2):
        path = separator.join(parts[start:end])
        if end - start > 1 and exists(path):
            raise InputError(
                f"{path}: fairseq would split this path at '{separator}'; rename the folder or "
                "file, or reach it by a link"
            )


def refuse_separator(option: str, path: str | os.PathLike[str], separator: str) -> None:
    """Refuse to make a folder whose path fairseq would split when it is given to it later."""
    if separator in str(path):
        raise InputError(
            f"{option} {path}: fairseq splits such paths at '{separator}'; name a folder without it"
        )
