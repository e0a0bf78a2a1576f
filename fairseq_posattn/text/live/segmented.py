"""Segment raw lines, and remember the text, its pieces, and where the pieces lie in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence, escape_whitespace, words_of_pieces
from fairseq_posattn.trees.projection import (
    Span,
    checked_parents,
    project_line,
    spans,
    without_separators,
)
from fairseq_posattn.trees.sentence import Tree

Tokenize = Callable[[Sequence[str]], list[Sentence] | None]  # it returns the words of each text


class SegmentedLine(NamedTuple):
    """This is a line as it was segmented: the text, its pieces, and where they lie in it.

    words: the words that will be parsed, if they are not those between the spaces of the text.
    """

    text: str
    pieces: str
    spans: Sequence[Span]
    words: Sentence | None = None

    @property
    def tokens(self) -> list[str]:
        """Return the words of the line, without whitespace inside."""
        if self.words is None:
            return self.text.split()
        return [escape_whitespace(token) for token in self.words.tokens]

    def project(self, sentence: Sentence) -> Tree:
        """Return the parents of the words of a tree, and the number of pieces of each word."""
        where = f"'{self.text}'"
        counts = project_line(sentence, self.text, self.spans, where)
        return Tree(checked_parents(sentence, where), counts)


def spelled(pieces: str, separator: str) -> SegmentedLine:
    """Return the line that pieces spell.

    The separator U+2581 says that they are pieces of sentencepiece, where it begins a word. Any
    other separator is that of subword-nmt, where it ends a piece that is joined to the next one.
    """
    split = pieces.split()
    if separator == SPACE:
        text = "".join(split).replace(SPACE, " ").strip(" ")
        return SegmentedLine(text, pieces, spans([piece.replace(SPACE, " ") for piece in split]))
    words, _ = words_of_pieces(split, separator)
    return SegmentedLine(" ".join(words), pieces, spans(without_separators(split, separator)))


def lines_of_encoder(
    raw: Sequence[str], encode: Callable[[str], str], separator: str, tokenize: Tokenize | None
) -> list[SegmentedLine]:
    """Segment lines by fairseq's --bpe and --tokenizer; their text is what the pieces spell."""
    return with_words([spelled(encode(line), separator) for line in raw], tokenize)


def with_words(lines: list[SegmentedLine], tokenize: Tokenize | None) -> list[SegmentedLine]:
    """Return the lines with the words that are found in their texts, if any are looked for."""
    words = tokenize([line.text for line in lines]) if tokenize else None
    if words is None:
        return lines
    return [line._replace(words=of_line) for line, of_line in zip(lines, words, strict=True)]


def lines_of_pipeline(
    raw: Sequence[str], pipeline: TextPipeline, tokenize: Tokenize | None
) -> list[SegmentedLine]:
    """Segment lines as the data were segmented."""
    texts = [pipeline.source_text(line) for line in raw]
    words = tokenize(texts) if tokenize else None
    if words is None:
        return [segment(text, None, pipeline) for text in texts]
    return [segment(*pair, pipeline) for pair in zip(texts, words, strict=True)]


def segment(text: str, words: Sentence | None, pipeline: TextPipeline) -> SegmentedLine:
    """Segment a text, or its words where the pipeline splits words."""
    text = pipeline.segmented(text, words)
    segmenter = pipeline.segmenter
    pieces = " ".join(segmenter.segment(text))
    return SegmentedLine(text, pieces, segmenter.spans(text), words)


class PipelineCodec:
    """A codec segments new text as the data were segmented, and joins its translation again.

    fairseq takes it in place of --bpe and --tokenizer.
    """

    def __init__(self, pipeline: TextPipeline):
        self.pipeline = pipeline

    def encode(self, line: str) -> str:
        """Return the pieces of a raw line."""
        text = self.pipeline.segmented(self.pipeline.source_text(line), None)
        return " ".join(self.pipeline.segmenter.segment(text))

    def decode(self, pieces: str) -> str:
        """Return the text of a translation from its pieces."""
        return self.pipeline.detokenized(self.pipeline.segmenter.join(pieces))
