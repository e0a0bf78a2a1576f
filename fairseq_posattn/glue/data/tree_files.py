"""Tree files beside fairseq's binarised data: train.en-de.en.tree.bin/.idx."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from fairseq.data import data_utils
from fairseq.data.indexed_dataset import data_file_path, index_file_path

from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.store import TreeFile, TreeWriter, exists, idx_path


class SourcePieces(Sequence):
    """The binarised source sentences as arrays."""

    def __init__(self, prefix: str):
        self.dataset = data_utils.load_indexed_dataset(prefix)
        if self.dataset is None:
            raise TreeError(f"{prefix}.idx: no binarised data of this name")

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def sizes(self) -> np.ndarray:
        return self.dataset.sizes

    def __getitem__(self, k: int) -> np.ndarray:  # type: ignore[override]  # slices are not needed
        return self.dataset[k].numpy()


def source_files(prefix: str) -> list[str]:
    return [index_file_path(prefix), data_file_path(prefix)]


def write_tree_file(
    source_prefix: str, trees: Iterable[tuple[Sequence[int], Sequence[int]]]
) -> None:
    """Trees as (parents, pieces of each word), one for each sentence of the binarised source."""
    source = SourcePieces(source_prefix)
    with TreeWriter(source_prefix) as writer:
        count = 0
        for count, (parents, pieces) in enumerate(trees, 1):
            if count <= len(source):
                check_pieces(source_prefix, count, source[count - 1], pieces)
                writer.add(parents, pieces, source[count - 1])
        if count != len(source):
            raise TreeError(f"{source_prefix}: {len(source)} sentences but {count} trees")
        writer.finish(source_files(source_prefix))


def check_pieces(prefix: str, number: int, source: np.ndarray, pieces: Sequence[int]) -> None:
    expected = sum(pieces) + 1
    if len(source) != expected:
        raise TreeError(
            f"{prefix}: sentence {number} has {len(source)} pieces with end of sentence, "
            f"its tree {expected}"
        )


def load_tree_file(source_prefix: str) -> TreeFile:
    """The checked trees of a binarised source."""
    if not exists(source_prefix):
        raise TreeError(
            f"{idx_path(source_prefix)}: no trees beside the data; make them with "
            "posattn-binarize, or translate with flat trees: --missing-tree flat"
        )
    trees = TreeFile(source_prefix)
    trees.check(source_files(source_prefix), SourcePieces(source_prefix))
    return trees
