"""Read tables in text files, whose columns are separated by tabs."""

from __future__ import annotations

from pathlib import Path

from fairseq_posattn.errors import InputError


def read_rows(path: str | Path, columns: int | None = None) -> list[list[str]]:
    """Read the lines of a table, split at tabs; all must have as many columns as the first one.

    With `columns`, they must have exactly this many.
    """
    from fairseq_posattn.io.files import read_lines

    rows = [line.split("\t") for line in read_lines(path)]
    if not rows:
        raise InputError(f"{path}: the file is empty, but a table is expected; get it again")
    expected = columns or len(rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != expected:
            raise InputError(
                f"{path}:{number}: {expected} columns are expected, but this line has {len(row)}; "
                "mend it, or get the table again"
            )
    return rows
