"""Raw lines -> segmented lines: the text, its pieces, and where the pieces lie in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.text.segmenters import SPACE
from fairseq_posattn.trees import Sentence, escape_whitespace, words_of_pieces
from fairseq_posattn.trees.alignment import Span, spans
from fairseq_posattn.trees.lines import Tree
from fairseq_posattn.trees.projection import checked_parents, project_line, without_separators

Tokenize = Callable[[Sequence[str]], list[Sentence] | None]  # texts -> the words of each


class SegmentedLine(NamedTuple):
    """A line as it was segmented: the text, its pieces, where they lie in it; the words that are to
    be parsed, where they are not just those of the text."""

    text: str
    pieces: str
    spans: Sequence[Span]
    words: Sentence | None = None

    @property
    def tokens(self) -> list[str]:
        """The words of the line without whitespace inside."""
        if self.words is None:
            return self.text.split()
        return [escape_whitespace(token) for token in self.words.tokens]

    def project(self, sentence: Sentence) -> Tree:
        """The parents of the words of its tree, and the number of pieces of each word."""
        where = f"'{self.text}'"
        counts = project_line(sentence, self.text, self.spans, where)
        return checked_parents(sentence, where), counts


def spelled(pieces: str, separator: str) -> SegmentedLine:
    """The line that pieces spell: of sentencepiece, whose pieces begin a word with U+2581, or of
    subword-nmt, whose separator ends a piece that its word goes on after."""
    split = pieces.split()
    if separator == SPACE:
        text = "".join(split).replace(SPACE, " ").strip(" ")
        return SegmentedLine(text, pieces, spans([piece.replace(SPACE, " ") for piece in split]))
    words, _ = words_of_pieces(split, separator)
    return SegmentedLine(" ".join(words), pieces, spans(without_separators(split, separator)))


def lines_of_encoder(
    raw: Sequence[str], encode: Callable[[str], str], separator: str, tokenize: Tokenize | None
) -> list[SegmentedLine]:
    """Lines segmented by fairseq's --bpe and --tokenizer: their text is what the pieces spell."""
    lines = [spelled(encode(line), separator) for line in raw]
    words = tokenize([line.text for line in lines]) if tokenize else None
    if words is None:
        return lines
    return [line._replace(words=of_line) for line, of_line in zip(lines, words, strict=True)]


def lines_of_pipeline(
    raw: Sequence[str], pipeline: TextPipeline, tokenize: Tokenize | None
) -> list[SegmentedLine]:
    """Lines segmented as the data were prepared."""
    texts = [pipeline.source_text(line) for line in raw]
    words = tokenize(texts) if tokenize else None
    if words is None:
        return [segment(text, None, pipeline) for text in texts]
    return [segment(*pair, pipeline) for pair in zip(texts, words, strict=True)]


def segment(text: str, words: Sentence | None, pipeline: TextPipeline) -> SegmentedLine:
    """The pieces of a text, or of its words where the pipeline splits these."""
    if words is not None:
        text = pipeline.segmented(text, words)
    segmenter = pipeline.segmenter
    pieces = " ".join(segmenter.segment(text))
    return SegmentedLine(text, pieces, segmenter.spans(text), words)
