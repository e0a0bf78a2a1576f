"""Segmenters: a line -> its pieces, and where each piece lies in the line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.io.numbers import plain_numbers
from fairseq_posattn.trees.alignment import Span, dense, spans
from fairseq_posattn.trees.projection import SEPARATOR, without_separators
from fairseq_posattn.trees.whitespace import OPEN_BOX, escape_whitespace

if TYPE_CHECKING:
    from subword_nmt.apply_bpe import BPE

SPACE = "\u2581"  # how sentencepiece writes a space
VERSION = re.compile(r"#version: 0\.[12](\.0)*")  # of a file of merges: those that there are


class Segmenter(Protocol):
    def segment(self, line: str) -> list[str]:
        """The pieces of a line."""

    def spans(self, line: str) -> list[Span]:
        """Where the pieces lie: offsets that count the line's characters without whitespace."""

    def join(self, pieces: str) -> str:
        """The line that pieces, separated by spaces, came from."""


@dataclass(frozen=True)
class Segmentation:
    """How subword-nmt splits words: merges, mark of a piece that others follow, pieces allowed."""

    codes: str
    separator: str = SEPARATOR
    vocabulary: str | None = None
    threshold: int | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.vocabulary is None:
            raise InputError("--vocabulary-threshold says nothing without --vocabulary")


class SubwordNmt:
    """Byte-pair encoding of words separated by spaces (Sennrich et al. 2016)."""

    def __init__(self, segmentation: Segmentation):
        self.separator = segmentation.separator
        self.bpe = load_bpe(segmentation)

    def segment(self, line: str) -> list[str]:
        # whatever whitespace separates words for fairseq does so here
        pieces: str = self.bpe.process_line(" ".join(line.split()))
        return pieces.split()

    def spans(self, line: str) -> list[Span]:
        found = spans(without_separators(self.segment(line), self.separator))
        if found and found[-1][1] != len(dense(line)):
            raise InputError(f"'{line}': a word ends in {self.separator}, which marks pieces")
        return found

    def join(self, pieces: str) -> str:
        return (pieces + " ").replace(self.separator + " ", "").rstrip(" ")


class SentencePiece:
    """sentencepiece (Kudo and Richardson 2018): any text, unigram or byte-pair encoding."""

    def __init__(self, model: str):
        import sentencepiece

        self.model = model
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_file=model)
        except (RuntimeError, OSError) as error:
            raise InputError(f"{model}: not a sentencepiece model ({error})") from error

    def segment(self, line: str) -> list[str]:
        # fairseq would tear a piece at whitespace, which a model may keep within one
        return [escape_whitespace(piece) for piece in self.processor.encode(line, out_type=str)]

    def spans(self, line: str) -> list[Span]:
        before = [0, *accumulate(not (c.isspace() or c == OPEN_BOX) for c in line)]
        return [(before[begin], before[end]) for begin, end in self.offsets(line)]

    def offsets(self, line: str) -> Sequence[Span]:
        """Its own offsets: its normalisation may change the number of characters."""
        try:
            offsets: list[Span]
            offsets = self.processor.encode(line, return_type="offset_mapping")["offsets"]
            return offsets
        except TypeError:  # before 0.2.2
            kind: Any = "immutable_proto"  # which the types of later versions do not name
            pieces = self.processor.encode(line, out_type=kind).pieces
            return [(piece.begin, piece.end) for piece in pieces]

    def join(self, pieces: str) -> str:
        return pieces.replace(" ", "").replace(SPACE, " ").strip(" ")


def load_bpe(segmentation: Segmentation) -> BPE:
    """The segmenter of subword-nmt."""
    from subword_nmt.apply_bpe import BPE

    codes = io.StringIO("\n".join(_merges(segmentation.codes)))
    return BPE(codes, separator=segmentation.separator, vocab=_vocabulary(segmentation))


def _merges(codes: str) -> Iterator[str]:
    """The lines of a file of merges; subword-nmt itself would end the program at a bad one."""
    number = 0
    for number, line in enumerate(read_lines(codes), start=1):
        if line.startswith("#version:"):
            if number > 1 or not VERSION.fullmatch(line):
                raise InputError(
                    f"{codes}:{number}: found '{line}'; '#version: 0.2' stands in the first line"
                )
        elif len(pieces := line.split(" ")) != 2 or not all(pieces) or "\r" in line:
            raise InputError(f"{codes}:{number}: expected two pieces to merge, found '{line}'")
        yield line
    if number < 2:
        raise InputError(
            f"{codes}: no merges; learn them from more text or a lower --min-frequency"
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
        raise InputError(f"{where}: expected a piece and its count, found '{line}'")
    return piece, counts[0]
