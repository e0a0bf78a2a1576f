"""Pretrained word vectors from the text format of fastText and word2vec."""

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
    """Put the vectors of the dictionary's words into the rows of embedding; returns how many."""
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
        raise InputError(f"{path}: has none of the {words} words of the dictionary")
    return len(found)


def read_vectors(path: str, width: int, wanted) -> Iterator[tuple[str, np.ndarray]]:
    """Those of the wanted words. A first line with the numbers of words and columns is allowed; a
    word may hold spaces."""
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
    """The numbers of a line; one that is not finite would make all later results NaN."""
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError:
        raise InputError(f"{where}: expected {len(numbers)} numbers after a word") from None
    if not PLAIN.fullmatch(" ".join(numbers)) or not np.isfinite(vector).all():
        raise InputError(
            f"{where}: expected {len(numbers)} finite numbers after a word, such as -0.5 or 1e-3; "
            "get the vectors again"
        )
    return vector


def columns(line: str) -> int:
    """The numbers at the end of a line, whose word may be a number, too."""
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
    if found < 1:
        raise InputError(f"{where}: expected a word and its {width} numbers; is it the right file?")
    if found != width:
        raise InputError(
            f"{where}: vectors of {found} numbers, the model's words have {width}: "
            f"give --encoder-embed-dim {found}"
        )
