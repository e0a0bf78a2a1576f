"""Segmenters, which split lines into pieces and locate the pieces in the line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.files.numbers import plain_numbers
from fairseq_posattn.trees.projection import SEPARATOR, Span, dense, spans, without_separators
from fairseq_posattn.trees.sentence import OPEN_BOX, escape_whitespace

if TYPE_CHECKING:
    pass

SPACE = "\u2581"  # sentencepiece's symbol for a space
VERSION = re.compile(r"#version: 0\.[12](\.0)*")  # supported versions of merge files


class Segmenter(Protocol):
    """Splits lines into pieces and joins them again."""

    def segment(self, line: str) -> list[str]:
        """Return the pieces of a line."""

    def spans(self, line: str) -> list[Span]:
        """Return the span of each piece, as character offsets that do not count whitespace."""

    def join(self, pieces: str) -> str:
        """Reconstruct a line from its pieces, which are separated by spaces."""


@dataclass(frozen=True)
class Segmentation:
    """The settings of subword-nmt.

    codes: the merge file.
    separator: the string that is appended to each piece of a word except the last one.
    vocabulary, threshold: a file of pieces with counts, and the count below which a piece is split
        further.
    """

    codes: str
    separator: str = SEPARATOR
    vocabulary: str | None = None
    threshold: int | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.vocabulary is None:
            raise InputError("--vocabulary-threshold needs a vocabulary; add --vocabulary FILE")


class SubwordNmt:
    """Splits words by byte-pair encoding (Sennrich et al. 2016), with subword-nmt."""

    def __init__(self, segmentation: Segmentation):
        self.separator = segmentation.separator
        from subword_nmt.apply_bpe import BPE

        codes = io.StringIO("\n".join(_merges(segmentation.codes)))
        self.bpe = BPE(codes, separator=self.separator, vocab=_vocabulary(segmentation))

    def segment(self, line: str) -> list[str]:
        # split at any whitespace, as fairseq does
        pieces: str = self.bpe.process_line(" ".join(line.split()))
        return pieces.split()

    def spans(self, line: str) -> list[Span]:
        found = spans(without_separators(self.segment(line), self.separator))
        if found and found[-1][1] != len(dense(line)):
            raise InputError(
                f"'{line}' contains a word that ends in the piece separator {self.separator}; "
                "remove the separator from the text"
            )
        return found

    def join(self, pieces: str) -> str:
        return (pieces + " ").replace(self.separator + " ", "").rstrip(" ")


class Words(SubwordNmt):
    """Treats each word as a piece."""

    def __init__(self, separator: str = SEPARATOR):
        self.separator = separator

    def segment(self, line: str) -> list[str]:
        return line.split()


class SentencePiece:
    """Splits raw text with a unigram or BPE model of sentencepiece (Kudo and Richardson 2018)."""

    def __init__(self, model: str):
        import sentencepiece

        self.model = model
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_file=model)
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"{model}: cannot load a sentencepiece model ({error}); use another file"
            ) from error

    def segment(self, line: str) -> list[str]:
        # a piece may contain whitespace, at which fairseq would split it
        return [escape_whitespace(piece) for piece in self.processor.encode(line, out_type=str)]

    def spans(self, line: str) -> list[Span]:
        before = [0, *accumulate(not (c.isspace() or c == OPEN_BOX) for c in line)]
        return [(before[begin], before[end]) for begin, end in self.offsets(line)]

    def offsets(self, line: str) -> Sequence[Span]:
        """Return the character offsets of the pieces in the line, as reported by sentencepiece.

        They cannot be computed from the pieces, because normalisation may add or remove characters.
        """
        try:
            offsets: list[Span]
            offsets = self.processor.encode(line, return_type="offset_mapping")["offsets"]
            return offsets
        except TypeError:  # versions before 0.2.2 do not support this type
            kind: Any = "immutable_proto"  # missing in the type hints of later versions
            pieces = self.processor.encode(line, out_type=kind).pieces
            return [(piece.begin, piece.end) for piece in pieces]

    def join(self, pieces: str) -> str:
        return pieces.replace(" ", "").replace(SPACE, " ").strip(" ")


def _merges(codes: str) -> Iterator[str]:
    """Yield the lines of a merge file.

    Raises InputError for an invalid line, for which subword-nmt itself would call sys.exit.
    """
    number = 0
    for number, line in enumerate(read_lines(codes), start=1):
        if line.startswith("#version:"):
            if number > 1 or not VERSION.fullmatch(line):
                raise InputError(
                    f"{codes}:{number}: found '{line}', but only the first line may contain a "
                    "version, such as '#version: 0.2'; learn the merges again"
                )
        elif len(pieces := line.split(" ")) != 2 or not all(pieces) or "\r" in line:
            raise InputError(
                f"{codes}:{number}: expected two pieces to merge, found '{line}'; learn the merges "
                "again"
            )
        yield line
    if number < 2:
        raise InputError(
            f"{codes}: the file contains no merges; learn them from more text or with a lower "
            "--min-frequency"
        )


def _vocabulary(segmentation: Segmentation) -> set[str] | None:
    path = segmentation.vocabulary
    if path is None:
        return None
    counts = (_piece_count(line, f"{path}:{k}") for k, line in enumerate(read_lines(path), start=1))
    return {piece for piece, count in counts if count >= (segmentation.threshold or 0)}


def _piece_count(line: str, where: str) -> tuple[str, int]:
    piece, _, count = line.rpartition(" ")
    counts = plain_numbers([count])
    if not piece or counts is None or counts[0] < 0:
        raise InputError(
            f"{where}: expected a piece and its count, found '{line}'; create the file with "
            "subword-nmt get-vocab"
        )
    return piece, counts[0]
