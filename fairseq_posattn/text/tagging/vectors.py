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
from fairseq_posattn.io.files import read_lines

PLAIN = re.compile(r"[-+.0-9eE ]*")  # float() also takes 1_0, nan and digits of other scripts
logger = logging.getLogger(__name__)


def load_vectors(path: str, dictionary, embedding: Tensor) -> int:
    """Copy the vectors of the dictionary's words into rows of the embedding; return how many."""
    found = set()
    with torch.no_grad():
        for word, vector in read_vectors(path, embedding.size(1), dictionary.indices):
            row = dictionary.index(word)
            if row >= dictionary.nspecial and row not in found:
                embedding[row] = torch.from_numpy(vector)
                found.add(row)
    words = len(dictionary) - dictionary.nspecial
    logger.info("%s: vectors of %d of %d words", path, len(found), words)
    if not found:
        raise InputError(
            f"{path}: the file has none of the {words} words of the dictionary; name the vectors "
            "of this language"
        )
    return len(found)


def read_vectors(path: str, width: int, wanted) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the wanted words with their vectors.

    The first line may hold the numbers of words and columns, and a word may hold spaces.
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
    """Read the numbers of a line; one that is not finite would make all later results NaN."""
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError:
        raise InputError(
            f"{where}: the line does not have {len(numbers)} numbers after a word; get the "
            "vectors again"
        ) from None
    if not PLAIN.fullmatch(" ".join(numbers)) or not np.isfinite(vector).all():
        raise InputError(
            f"{where}: the line does not have {len(numbers)} finite numbers after a word, such as "
            "-0.5 or 1e-3; get the vectors again"
        )
    return vector


def columns(line: str) -> int:
    """Count the numbers at the end of a line, whose word may be a number, too."""
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
    """Refuse vectors that do not have as many numbers as the model's embeddings."""
    if found < 1:
        raise InputError(
            f"{where}: the line does not have a word and its {width} numbers; name a file of "
            "vectors"
        )
    if found != width:
        raise InputError(
            f"{where}: the model's vectors have {width} numbers, but this one has {found}; "
            f"give --encoder-embed-dim {found}"
        )
