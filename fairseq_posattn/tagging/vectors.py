"""Load pretrained word vectors from the text format of fastText and word2vec."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines

PLAIN = re.compile(r"[-+.0-9eE ]*")  # float() also accepts 1_0, nan and digits of other scripts
logger = logging.getLogger(__name__)


def load_vectors(path: str, dictionary, embedding: Tensor) -> int:
    """Copy pretrained vectors into the embeddings of a dictionary; return the number of vectors."""
    found = set()
    with torch.no_grad():
        for word, vector in read_vectors(path, embedding.size(1), dictionary.indices):
            row = dictionary.index(word)
            if row >= dictionary.nspecial and row not in found:
                embedding[row] = torch.from_numpy(vector)
                found.add(row)
    words = len(dictionary) - dictionary.nspecial
    logger.info("%s: loaded vectors of %d of %d words", path, len(found), words)
    if not found:
        raise InputError(
            f"{path}: the file contains none of the dictionary's {words} words; use word vectors "
            "for this language"
        )
    return len(found)


def read_vectors(path: str, width: int, wanted) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the words of a file that are in `wanted`, with their vectors.

    The first line may contain the number of words and the vector size. Words may contain spaces.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if number == 1:
            header = re.fullmatch(r"[0-9]+ ([0-9]{1,9})", line.rstrip(" "))
            check_width(int(header[1]) if header else columns(line), width, f"{path}:1")
            if header:
                continue
        word, *numbers = line.rstrip(" ").rsplit(" ", width)
        if len(numbers) != width or not word:
            check_width(len(line.split()) - 1, width, f"{path}:{number}")
        if word in wanted:
            yield word, parse(numbers, f"{path}:{number}")


def parse(numbers: list[str], where: str) -> np.ndarray:
    """Parse the numbers of a line; raise an InputError if one is invalid or not finite."""
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError:
        raise InputError(
            f"{where}: expected a word and {len(numbers)} numbers; download the vectors again"
        ) from None
    if not PLAIN.fullmatch(" ".join(numbers)) or not np.isfinite(vector).all():
        raise InputError(
            f"{where}: expected a word and {len(numbers)} finite numbers, such as -0.5 or 1e-3; "
            "download the vectors again"
        )
    return vector


def columns(line: str) -> int:
    """Return how many numbers follow the word in a line; the word may be a number itself."""
    tokens = line.split()
    numbers = list(itertools.takewhile(is_number, reversed(tokens)))
    return len(numbers) - (len(numbers) == len(tokens))


def is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def check_width(found: int, width: int, where: str) -> None:
    """Raise an InputError if the vectors and the model's embeddings differ in width."""
    if found < 1:
        raise InputError(
            f"{where}: expected a word and {width} numbers; use a file of word vectors"
        )
    if found != width:
        raise InputError(
            f"{where}: the vector has {found} numbers, but the model's embeddings have {width}; "
            f"use --encoder-embed-dim {found}"
        )
