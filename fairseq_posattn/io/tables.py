"""Tables in text files: columns separated by tabs, as many in each line."""

from __future__ import annotations

from pathlib import Path

from fairseq_posattn.errors import InputError


def read_rows(path: str | Path, columns: int | None = None) -> list[list[str]]:
    """The lines of a table, split at tabs. Without `columns`, the first line says how many."""
    from fairseq_posattn.io.files import read_lines

    rows = [line.split("\t") for line in read_lines(path)]
    if not rows:
        raise InputError(f"{path}: empty; a table is expected: get it again")
    expected = columns or len(rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != expected:
            raise InputError(
                f"{path}:{number}: {len(row)} columns, {expected} are expected; mend this line, "
                "or get the table again"
            )
    return rows
