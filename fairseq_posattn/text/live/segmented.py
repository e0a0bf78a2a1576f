"""Segment raw lines, and record the span of each piece in the text."""

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

Tokenize = Callable[[Sequence[str]], list[Sentence] | None]  # returns the words of each text


class SegmentedLine(NamedTuple):
    """A segmented line: its text, its pieces, and the span of each piece in the text.

    words: the words to parse; None to split the text at spaces.
    """

    text: str
    pieces: str
    spans: Sequence[Span]
    words: Sentence | None = None

    @property
    def tokens(self) -> list[str]:
        """Return the words of the line, with whitespace inside words escaped."""
        if self.words is None:
            return self.text.split()
        return [escape_whitespace(token) for token in self.words.tokens]

    def project(self, sentence: Sentence) -> Tree:
        """Project a tree onto the pieces, and return each word's parent and number of pieces."""
        where = f"'{self.text}'"
        counts = project_line(sentence, self.text, self.spans, where)
        return Tree(checked_parents(sentence, where), counts)


def spelled(pieces: str, separator: str) -> SegmentedLine:
    """Reconstruct a line from its pieces.

    If the separator is U+2581, it marks the start of a word, as in sentencepiece. Any other
    separator marks the end of a piece that is joined to the next one, as in subword-nmt.
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
    """Segment lines with fairseq's --tokenizer and --bpe; rebuild their text from the pieces."""
    return with_words([spelled(encode(line), separator) for line in raw], tokenize)


def with_words(lines: list[SegmentedLine], tokenize: Tokenize | None) -> list[SegmentedLine]:
    """Add the words that `tokenize` returns; if there are none, return the lines unchanged."""
    words = tokenize([line.text for line in lines]) if tokenize else None
    if words is None:
        return lines
    return [line._replace(words=of_line) for line, of_line in zip(lines, words, strict=True)]


def lines_of_pipeline(
    raw: Sequence[str], pipeline: TextPipeline, tokenize: Tokenize | None
) -> list[SegmentedLine]:
    """Segment lines in the same way as the training data."""
    texts = [pipeline.source_text(line) for line in raw]
    words = tokenize(texts) if tokenize else None
    if words is None:
        return [segment(text, None, pipeline) for text in texts]
    return [segment(*pair, pipeline) for pair in zip(texts, words, strict=True)]


def segment(text: str, words: Sentence | None, pipeline: TextPipeline) -> SegmentedLine:
    """Segment a text, or its `words` if the segmenter processes the words of the parser."""
    text = pipeline.segmented(text, words)
    segmenter = pipeline.segmenter
    pieces = " ".join(segmenter.segment(text))
    return SegmentedLine(text, pieces, segmenter.spans(text), words)


class PipelineCodec:
    """Segments new text in the same way as the training data, and detokenises translations.

    It replaces fairseq's --bpe and --tokenizer.
    """

    def __init__(self, pipeline: TextPipeline):
        self.pipeline = pipeline

    def encode(self, line: str) -> str:
        text = self.pipeline.segmented(self.pipeline.source_text(line), None)
        return " ".join(self.pipeline.segmenter.segment(text))

    def decode(self, pieces: str) -> str:
        """Join the pieces of a translation, and detokenise the result."""
        return self.pipeline.detokenized(self.pipeline.segmenter.join(pieces))
