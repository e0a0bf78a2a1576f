"""Read files of NIST (.sgm, .xml) with the sources, references or translations of a test set.

Tags may have any case, and attributes any order, with or without quotes. A `<seg>` may stand in
`<hl>` and `<p>`, and go over several lines. A set is what one translator wrote; the `sysid` (or
`refid`) of a `<doc>`, or of the `<refset>` around it, names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.lab.scoring.metrics.segments import SegmentReader, SegmentSet

# only complete entities are decoded; the ampersand of AT&T or Q&amplifier is part of the text
BARE_AMPERSAND = re.compile(r"&(?!(?:#\d+|#[xX][0-9a-fA-F]+|[a-zA-Z]\w*);)")


def read_sets(path: str | Path) -> list[SegmentSet]:
    """Return all sets of a file."""
    reader = SegmentReader(str(path))
    text = "\n".join(read_lines(path))
    reader.read(BARE_AMPERSAND.sub("&amp;", text) + "\n")
    if not reader.sets:
        raise InputError(
            f"{path}: there is no <seg>; name a file of NIST's format, "
            "or give plain lines with --references"
        )
    return list(reader.sets.values())


def read_set(path: str | Path, name: str | None = None) -> SegmentSet:
    """Return the only set of a file, or the one of that name."""
    sets = read_sets(path)
    found = sets if name is None else [one for one in sets if one.name == name]
    if len(found) == 1:
        return found[0]
    names = ", ".join(repr(one.name) for one in sets)
    if name is None:
        raise InputError(
            f"{path}: the file has several sets ({names}); name a file with one, or use --set"
        )
    raise InputError(f"{path}: the file has no set {name!r}; choose one of {names}")


def aligned(sets: Sequence[SegmentSet], order: SegmentSet) -> list[list[str]]:
    """Return the texts of each set, all in the order of the set `order`."""
    return [one.in_order_of(order) for one in sets]
