"""Dictionaries of word labels, such as dict.en.relations.txt and dict.en.tags.txt.

The files have fairseq's dictionary format, and fairseq adds its special symbols to the loaded
dictionaries. If a relation with a subtype is not in the dictionary, the relation without the
subtype is used. All other labels that are not in the dictionary become <unk>.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary
from numpy.typing import NDArray

from fairseq_posattn.errors import InputError
from fairseq_posattn.trees.sentence import KINDS, UNKNOWN, Labels, without_subtype

LARGEST = 256  # a label is stored in one byte
REMEDY = (
    "create the data with posattn prepare, or with posattn project --labels and posattn binarize "
    "(with --srcdict for further data sets)"
)


def check_folder(labels_of: str | None) -> None:
    """Raise an InputError if the folder given with --labels-of does not exist."""
    if labels_of and not Path(labels_of).is_dir():
        raise InputError(
            f"--labels-of {labels_of}: there is no such folder; give the path of the training data"
        )


class LabelDictionaries:
    """The dictionaries of dependency relations and of parts of speech."""

    def __init__(self, relations: Dictionary, tags: Dictionary):
        self.relations = relations
        self.tags = tags

    @classmethod
    def of(cls, labels: Iterable[Labels], subtypes: bool) -> LabelDictionaries:
        """Build the dictionaries from the labels of sentences.

        Each dictionary has at most 256 symbols, so only the most frequent labels are kept.

        subtypes: whether relations keep their subtypes.
        """
        relations: Counter[str] = Counter()
        tags: Counter[str] = Counter()
        for of_sentence in labels:
            relations.update(of_sentence.relations)
            tags.update(of_sentence.tags)
        return cls.of_counts(relations, tags, subtypes)

    @classmethod
    def of_counts(
        cls, relations: Counter[str], tags: Counter[str], subtypes: bool
    ) -> LabelDictionaries:
        """Build the dictionaries from the counts of relations and parts of speech."""
        return cls(
            dictionary_of(relations, None if subtypes else without_subtype), dictionary_of(tags)
        )

    @classmethod
    def load(cls, folder: Path, language: str) -> LabelDictionaries | None:
        """Load the dictionaries of a data folder, or return None if it has none."""
        found = paths(folder, language)
        missing = [path for path in found if not path.exists()]
        if len(missing) == len(found):
            return None
        if missing:
            raise InputError(
                f"{missing[0]}: the file is missing, but the other label dictionary exists; "
                f"{REMEDY}"
            )
        return cls(*(Dictionary.load(str(path)) for path in found))

    def save(self, folder: Path, language: str) -> None:
        relations, tags = paths(folder, language)
        self.relations.save(str(relations))
        self.tags.save(str(tags))

    def numbers(self, labels: Labels) -> tuple[list[int], list[int]]:
        """Return the indices of a sentence's relations and parts of speech."""
        return (
            [number(self.relations, relation) for relation in labels.relations],
            [self.tags.index(tag) for tag in labels.tags],
        )

    def numbers_in(self, other: LabelDictionaries) -> NDArray[np.uint16]:
        """Return a table that maps the stored labels of a word to their indices in `other`.

        A word's relation and part of speech are stored as one 16-bit number, the table's index.
        """
        pairs = np.arange(LARGEST**2, dtype="<u2").view([("relations", "u1"), ("tags", "u1")])
        for kind in KINDS:
            here, there = getattr(self, kind), getattr(other, kind)
            table = np.full(LARGEST, there.unk(), np.uint8)
            table[: len(here)] = [number(there, symbol) for symbol in here.symbols]
            pairs[kind] = table[pairs[kind]]
        return pairs.view("<u2")

    def unknown_to(self, other: LabelDictionaries) -> list[str]:
        """Return the labels that `other` does not contain.

        If `other` contains no relations at all, or no parts of speech, this kind is skipped.
        """
        return [
            symbol
            for kind in KINDS
            for symbol in getattr(self, kind).symbols[getattr(self, kind).nspecial :]
            if not other.lacks(kind)
            and number(getattr(other, kind), symbol) == getattr(other, kind).unk()
        ]

    @property
    def sizes(self) -> dict[str, int]:
        return {"relations": len(self.relations), "tags": len(self.tags)}

    def lacks(self, kind: str) -> bool:
        """Return whether the dictionary of this kind contains no labels."""
        dictionary: Dictionary = getattr(self, kind)
        return len(dictionary) == dictionary.nspecial

    @property
    def fingerprint(self) -> bytes:
        """Return an order-dependent digest of all symbols."""
        symbols = [*self.relations.symbols, "", *self.tags.symbols]
        return hashlib.blake2b("\n".join(symbols).encode(), digest_size=16).hexdigest().encode()


def sizes_for(
    kinds: Iterable[str], dictionaries: LabelDictionaries | None, folder: str, language: str
) -> dict[str, int]:
    """Return the size of each dictionary; raise an InputError if one of `kinds` has no labels."""
    names = {"relations": "relation names", "tags": "parts of speech"}
    for kind in kinds:
        if dictionaries is None or dictionaries.lacks(kind):
            raise InputError(
                f"{folder}: this model reads {names[kind]}, but the data have none "
                f"(dict.{language}.{kind}.txt); {REMEDY}"
            )
    return {} if dictionaries is None else dictionaries.sizes


def paths(folder: Path, language: str) -> list[Path]:
    return [Path(folder) / f"dict.{language}.{kind}.txt" for kind in KINDS]


def dictionary_of(counts: Counter[str], shorten: Callable[[str], str] | None = None) -> Dictionary:
    """Build a dictionary from label counts, excluding the label for unknown values.

    shorten: a function that is applied to each label first, for example to remove subtypes.
    """
    dictionary = Dictionary()
    special = list(dictionary.symbols)
    for label, count in counts.items():
        symbol = shorten(label) if shorten else label
        if symbol != UNKNOWN and symbol not in special:
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(nwords=LARGEST, padding_factor=1)
    return dictionary


def number(labels: Dictionary, label: str) -> int:
    """Return the index of a label; for an unknown subtype, the index of its main relation."""
    found: int = labels.index(label)
    return labels.index(without_subtype(label)) if found == labels.unk() else found
