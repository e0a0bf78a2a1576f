"""Find the files that fairseq loads for a split of the data."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

from fairseq import utils
from fairseq.data import indexed_dataset


def source_prefixes(cfg: Any, split: str, epoch: int, combine: bool) -> list[str]:
    """Return the prefixes of the source files that fairseq's translation task loads.

    They are train, train1, ... if the splits are combined. fairseq does not tell which files it
    loads, but the trees lie beside them.
    """
    paths = utils.split_paths(cfg.data)
    path = paths[(epoch - 1) % len(paths)] if split == cfg.train_subset else paths[0]
    found = numbered_prefixes(cfg, os.path.join(path, split))
    return list(found if combine else itertools.islice(found, 1))


def numbered_prefixes(cfg: Any, start: str) -> Iterator[str]:
    """Yield the prefix of the split, then the prefix with 1, 2, ... behind it while such files
    exist."""
    for number in itertools.count():
        prefix = source_prefix(cfg, f"{start}{number or ''}")
        if prefix is None:
            return
        yield prefix


def source_prefix(cfg: Any, start: str) -> str | None:
    """Return the prefix of the source file that begins with `start`, or None if there is none.

    The file name may give the two languages in either order.
    """
    source, target = cfg.source_lang, cfg.target_lang
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        prefix = f"{start}.{pair}.{source}"
        if indexed_dataset.dataset_exists(prefix, impl=cfg.dataset_impl):
            return prefix
    return None
