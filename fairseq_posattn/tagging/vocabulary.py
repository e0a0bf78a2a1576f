"""The dictionaries of a tagger (words, characters and tags), and pretrained word vectors."""

from __future__ import annotations

import codecs
import io
import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json, read_lines
from fairseq_posattn.files.records import as_record, at_least, one_of
from fairseq_posattn.tagging.sentences import TAG_COLUMNS, TaggedSentence

SETTINGS = "tagging.json"
AMBIGUOUS = "ambiguous.txt"
KINDS = ("word", "char", "tag")


class PlainDictionary(Dictionary):
    """A dictionary with two special symbols instead of fairseq's four: padding (0) and unknown (1).

    With these symbols, models have the published numbers of parameters.
    """

    def __init__(self, **options):
        super().__init__(bos="<pad>", eos="<pad>", **options)

    @classmethod
    def of(cls, symbols: Iterable[tuple[str, int]]) -> PlainDictionary:
        """Create a dictionary from symbols and their counts, in the given order."""
        dictionary = cls()
        for symbol, count in symbols:
            if symbol not in dictionary.indices:
                dictionary.add_symbol(symbol, count)
        return dictionary

    def numbers(self, symbols: Iterable[str]) -> list[int]:
        """Return the indices of symbols; the word `<pad>` is treated as unknown."""
        return [self.index(symbol) or self.unk_index for symbol in symbols]


@dataclass(frozen=True)
class Settings:
    """Settings of the tagging data, which also apply to new text.

    column: the CoNLL-U column that contains the tags.
    max_words: longer sentences are split into parts of this length.
    max_chars: longer words are truncated to this length.
    """

    column: str = field(default="upos", metadata=one_of(*TAG_COLUMNS))
    max_words: int = field(default=60, metadata=at_least(1))
    max_chars: int = field(default=20, metadata=at_least(1))


class Vocabulary:
    """The dictionaries of words, characters and tags, and a list of ambiguous words."""

    def __init__(self, settings: Settings, words, chars, tags, ambiguous: Iterable[str] = ()):
        self.settings, self.words, self.chars, self.tags = settings, words, chars, tags
        self.ambiguous = list(ambiguous)

    @classmethod
    def load(cls, folder: str | Path) -> Vocabulary:
        folder = Path(folder)
        if not (folder / SETTINGS).exists():
            raise InputError(
                f"{folder}: the folder contains no {SETTINGS}; create the data with posattn "
                "binarize-tagging"
            )
        remedy = "make the data again with posattn binarize-tagging"
        about = read_json(folder / SETTINGS, remedy)
        settings = as_record(Settings, about, str(folder / SETTINGS), remedy)
        words, chars, tags = (PlainDictionary.load(str(dictionary_path(folder, k))) for k in KINDS)
        return cls(settings, words, chars, tags, read_lines(folder / AMBIGUOUS))

    def save(self, folder: Path) -> None:
        (folder / SETTINGS).write_text(json.dumps(asdict(self.settings), indent=1) + "\n")
        for kind, dictionary in zip(KINDS, (self.words, self.chars, self.tags), strict=True):
            symbols = io.StringIO()
            dictionary.save(symbols)
            write_plainly(dictionary_path(folder, kind), symbols.getvalue())
        write_plainly(folder / AMBIGUOUS, "".join(f"{word}\n" for word in self.ambiguous))

    def is_ambiguous(self) -> np.ndarray:
        """Return a boolean mask over word indices: words with several tags in the training data."""
        flags = np.zeros(len(self.words), dtype=bool)
        flags[self.words.numbers(self.ambiguous)] = True
        flags[: self.words.nspecial] = False
        return flags

    def pieces(self, words: Sequence) -> list[Sequence]:
        size = self.settings.max_words
        return [words[start : start + size] for start in range(0, len(words), size)]

    def spelling(self, word: str) -> list[int]:
        return self.chars.numbers(word[: self.settings.max_chars])

    def spellings(self, words: Iterable[str]) -> list[int]:
        """Return the indices of the characters in all words, with padding after each word."""
        return [number for word in words for number in (*self.spelling(word), self.chars.pad())]


def write_plainly(path: Path, text: str) -> None:
    """Write a text such that `read_lines` returns it unchanged.

    A byte order mark at the start is doubled, because reading removes one.
    """
    marked = text.startswith(codecs.BOM_UTF8.decode())
    path.write_text(text, encoding="utf-8-sig" if marked else "utf-8")


def learn(
    training: Sequence[TaggedSentence],
    all_sentences: Sequence[TaggedSentence],
    size: str,
    settings: Settings,
) -> Vocabulary:
    """Build a vocabulary: words from all sentences, characters and tags from `training`.

    This matches the published setup. The most frequent words are used; ties are broken by the first
    occurrence.

    size: a number of words, or a percentage of the distinct words, such as 50%.
    """
    counts = Counter(word for sentence in all_sentences for word in sentence.words)
    chars = Counter(
        char for s in training for word in s.words for char in word[: settings.max_chars]
    )
    tags = Counter(tag for s in training for tag in s.tags if tag is not None)
    words = PlainDictionary.of(counts.most_common(number_of_words(size, len(counts))))
    ambiguous = [word for word in ambiguous_words(training) if word in words.indices]
    return Vocabulary(
        settings,
        words,
        PlainDictionary.of(chars.most_common()),
        PlainDictionary.of(tags.most_common()),
        ambiguous,
    )


def number_of_words(size: str, types: int) -> int:
    """Convert `size`, such as 20000 or 50%, to a number of words, given `types` distinct words."""
    match = re.fullmatch(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)%", size)
    if match is None:
        raise InputError(f"--words {size} is not valid; use a number, or a share such as 50%")
    return int(match[1]) if match[1] else int(types * float(match[2]) / 100)


def ambiguous_words(training: Iterable[TaggedSentence]) -> list[str]:
    tags_of: dict[str, set[str]] = {}
    for sentence in training:
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            if tag is not None:
                tags_of.setdefault(word, set()).add(tag)
    return [word for word, tags in tags_of.items() if len(tags) > 1]


def dictionary_path(folder: Path, kind: str) -> Path:
    return folder / f"dict.{kind}.txt"


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
            f"use --encoder-embed-dim {found}, or download the file again if only this line differs"
        )
