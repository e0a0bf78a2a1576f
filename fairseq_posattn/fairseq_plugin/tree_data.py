"""Read and write tree files of binarised data, such as train.en-de.en.tree.bin, and batch trees."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from fairseq import utils
from fairseq.data import BaseWrapperDataset, FairseqDataset, data_utils, indexed_dataset
from fairseq.data.indexed_dataset import data_file_path, index_file_path

from fairseq_posattn.fairseq_plugin.label_dictionaries import REMEDY, LabelDictionaries
from fairseq_posattn.text.live.line_trees import NewTrees
from fairseq_posattn.trees import store_format
from fairseq_posattn.trees.checks import TreeError
from fairseq_posattn.trees.drawing import drawn, number_of_words, words_by_counts, words_of_tree
from fairseq_posattn.trees.sentence import Labels, Tree
from fairseq_posattn.trees.store import TreeFile, TreeWriter
from fairseq_posattn.trees.store_format import WORD, exists, idx_path, ranges

logger = logging.getLogger(__name__)


class SourcePieces(Sequence):
    """Binarised source sentences as numpy arrays."""

    def __init__(self, prefix: str):
        self.dataset = data_utils.load_indexed_dataset(prefix)
        if self.dataset is None:
            raise TreeError(f"{prefix}.idx: there is no such file; binarise the data again")

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def sizes(self) -> np.ndarray:
        return self.dataset.sizes

    def __getitem__(self, k: int) -> np.ndarray:  # type: ignore[override]  # slices are not needed
        return self.dataset[k].numpy()


def source_prefixes(cfg: Any, split: str, epoch: int, combine: bool) -> list[str]:
    """Return the prefixes of the source files that fairseq's translation task loads for a split.

    combine: whether fairseq combines train, train1, ... into one dataset.
    """
    paths = utils.split_paths(cfg.data)
    path = paths[(epoch - 1) % len(paths)] if split == cfg.train_subset else paths[0]
    found: list[str] = []
    while combine or not found:
        prefix = source_prefix(cfg, os.path.join(path, f"{split}{len(found) or ''}"))
        if prefix is None:
            break
        found.append(prefix)
    return found


def source_prefix(cfg: Any, start: str) -> str | None:
    """Return the prefix of the source file whose name begins with `start`, or None.

    The file name may contain the two languages in either order.
    """
    source, target = cfg.source_lang, cfg.target_lang
    for pair in (f"{source}-{target}", f"{target}-{source}"):
        prefix = f"{start}.{pair}.{source}"
        if indexed_dataset.dataset_exists(prefix, impl=cfg.dataset_impl):
            return prefix
    return None


def source_files(prefix: str) -> list[str]:
    return [index_file_path(prefix), data_file_path(prefix)]


def write_tree_file(
    source_prefix: str,
    trees: Iterable[tuple[Sequence[int], Sequence[int]] | Tree],
    dictionaries: LabelDictionaries | None = None,
) -> None:
    """Write the tree file of a binarised source text.

    trees: for each sentence, the parent of each word and the number of pieces of each word.
    dictionaries: the label dictionaries. Without dictionaries, or if the trees have no labels, no
        labels are written. Either all trees or no trees must have labels.
    """
    source = SourcePieces(source_prefix)
    some_labels, all_trees = look_for_labels(Tree(*tree) for tree in trees)
    if dictionaries is not None and not some_labels:
        logger.warning(
            "%s: the trees have no word labels, so models that read labels cannot use these data; "
            "add labels with posattn project --labels",
            source_prefix,
        )
        dictionaries = None
    labels_of = None if dictionaries is None else dictionaries.fingerprint
    with TreeWriter(source_prefix, labels_of) as writer:
        count = 0
        for count, (parents, pieces, labels) in enumerate(all_trees, 1):
            if count <= len(source):
                check_pieces(source_prefix, count, source[count - 1], pieces)
                numbers = None
                if dictionaries is not None:
                    if labels is None and parents:
                        raise TreeError(
                            f"{source_prefix}: tree {count} has no labels, but others do; project "
                            "either all trees or none with posattn project --labels"
                        )
                    numbers = dictionaries.numbers(labels or Labels([], []))
                writer.add(parents, pieces, source[count - 1], numbers)
        if count != len(source):
            raise TreeError(
                f"{source_prefix}: the data have {len(source)} sentences, but {count} trees; "
                "project the trees onto this text"
            )
        writer.finish(source_files(source_prefix))


def join_tree_files(parts: Sequence[str], source_prefix: str) -> None:
    """Concatenate the tree files of sources that were concatenated into `source_prefix`."""
    trees = [TreeFile(part) for part in parts]
    labels = next((file.labels for file in trees if file.labels is not None), None)
    if any(file.labels != labels and file.starts[-1] for file in trees):
        raise TreeError(
            f"{source_prefix}: only some trees have word labels; project either all trees or none "
            "with posattn project --labels"
        )
    trees = [TreeFile(part, with_labels=labels is not None) for part in parts]
    with TreeWriter(source_prefix, labels) as writer:
        for file in trees:
            writer.add_file(file)
        writer.finish(source_files(source_prefix))


def look_for_labels(trees: Iterable[Tree]) -> tuple[bool, Iterator[Tree]]:
    """Return whether the first nonempty tree has labels, and an iterator over all trees."""
    seen, rest = [], iter(trees)
    for tree in rest:
        seen.append(tree)
        if tree.parents:
            break
    return bool(seen and seen[-1].labels), chain(seen, rest)


def check_pieces(prefix: str, number: int, source: np.ndarray, pieces: Sequence[int]) -> None:
    """Raise a TreeError if a tree does not have as many pieces as its sentence."""
    expected = sum(pieces) + 1
    if len(source) != expected:
        raise TreeError(
            f"{prefix}: sentence {number} has {len(source)} pieces, including the end-of-sentence "
            f"symbol, but its tree has {expected}; project the trees onto this text"
        )


def load_tree_file(
    source_prefix: str, dictionaries: LabelDictionaries | None = None, by_name: bool = False
) -> TreeFile:
    """Load the trees of a binarised source; raise a TreeError if they do not match the source.

    dictionaries: the model's label dictionaries; if None, no labels are loaded.
    by_name: whether to convert labels by name if the source uses different label dictionaries.
    """
    if not exists(source_prefix):
        raise TreeError(
            f"{idx_path(source_prefix)}: the data have no tree file; prepare them with a parser "
            "(posattn prepare without --parser none, or posattn project and posattn binarize), "
            "or use flat trees with --missing-tree flat"
        )
    trees = TreeFile(source_prefix, with_labels=dictionaries is not None)
    if dictionaries is not None and trees.labels is None:
        raise TreeError(f"{idx_path(source_prefix)}: the trees have no word labels; {REMEDY}")
    trees.check(source_files(source_prefix), SourcePieces(source_prefix))
    if dictionaries is None or trees.labels == dictionaries.fingerprint:
        return trees
    language = source_prefix.rpartition(".")[2]
    beside = LabelDictionaries.load(Path(source_prefix).parent, language) if by_name else None
    if beside is None or trees.labels != beside.fingerprint:
        raise TreeError(
            f"{idx_path(source_prefix)}: the label dictionaries differ from those of the training "
            f"data; {REMEDY}"
        )
    if unknown := beside.unknown_to(dictionaries):
        names = ", ".join(unknown)
        logger.warning("%s: the model treats these labels as unknown: %s", source_prefix, names)
    trees.new_labels = beside.numbers_in(dictionaries)
    return trees


class Trees(Protocol):
    """The interface through which `TreeDataset` reads the trees of a dataset."""

    def __len__(self) -> int: ...

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated word records of the given sentences, and the sentence lengths."""


class JoinedTrees:
    """Concatenates the trees of several datasets; --upsample-primary repeats the first one."""

    def __init__(self, parts: Sequence[Trees], repeat_first: int = 1):
        self.parts = parts
        sizes = [len(part) * (repeat_first if k == 0 else 1) for k, part in enumerate(parts)]
        self.ends = np.cumsum(sizes)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def read(self, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the word records and lengths of sentences from any of the datasets."""
        part_of = np.searchsorted(self.ends, sentences, side="right")
        order = np.argsort(part_of, kind="stable")
        read = [self.read_part(k, sentences[part_of == k]) for k in np.unique(part_of)]
        records = np.concatenate([r for r, _ in read]) if read else np.empty(0, WORD)
        lengths = np.empty(len(sentences), np.int64)
        lengths[order] = np.concatenate([n for _, n in read]) if read else 0
        starts = np.empty(len(sentences), np.int64)
        starts[order] = np.cumsum(lengths[order]) - lengths[order]
        return records[ranges(starts, lengths)], lengths

    def read_part(self, k: int, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = self.ends[k - 1] if k else 0
        return self.parts[k].read((sentences - start) % len(self.parts[k]))


class TreeDataset(BaseWrapperDataset):
    """Adds net_input['source_tree'] to the batches of a LanguagePairDataset.

    Trees are added to batches and not to samples, because it is faster to read all trees of a batch
    at once. A batch of new text also contains its trees as `sentences`.
    """

    def __init__(self, dataset: FairseqDataset, trees: Trees):
        super().__init__(dataset)
        self.trees = trees

    @property
    def src(self):
        return self.dataset.src

    @property
    def tgt(self):
        return self.dataset.tgt

    def collater(self, samples, **kwargs):
        merged = self.dataset.collater(samples, **kwargs)
        if merged:
            merged["net_input"]["source_tree"] = self.source_tree(merged)
            if isinstance(self.trees, NewTrees):
                merged["sentences"] = [self.trees.found[k] for k in merged["id"].tolist()]
        return merged

    def source_tree(self, merged: dict) -> torch.Tensor:
        """Return the trees of a batch as a tensor for `SourceTree.of_batch`.

        The trees are in the order of the collated batch, which is sorted by length.
        """
        records, lengths = self.trees.read(merged["id"].numpy())
        pieces = merged["net_input"]["src_lengths"].numpy() - 1
        return torch.from_numpy(store_format.collate(records, lengths, pieces))


def print_tree(number: int, words: Sequence[str], parents: Sequence[int]) -> None:
    """Print a tree with one line per word: TREE-NUMBER, depth and word.

    fairseq prints the source sentence with the same number, as S-NUMBER.
    """
    print("".join(f"TREE-{number}\t{line}\n" for line in drawn(words, parents)), end="")


def print_new_trees(sample: dict) -> None:
    """Print the trees of new text, with the parser's words."""
    pairs = zip(sample["id"].tolist(), sample["sentences"], strict=True)
    for number, sentence in sorted(pairs, key=itemgetter(0)):
        words = words_of_tree(sentence.tokens, sentence.words_of_token)
        print_tree(number, words, sentence.parents or [])


def print_read_trees(sample: dict, dictionary: Any, separator: str) -> None:
    """Print the trees of binarised data, with words that are restored from the pieces."""
    parents, counts = sample["net_input"]["source_tree"][:2].tolist()
    for k, number in enumerate(sample["id"].tolist()):
        tokens = sample["net_input"]["src_tokens"][k]
        pieces = dictionary.string(tokens[tokens != dictionary.pad()]).split()
        length = number_of_words(parents[k], counts[k])
        words = words_by_counts(pieces, counts[k][:length], separator)
        print_tree(number, words, parents[k][:length])
