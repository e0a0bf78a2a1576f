"""Segment new text as prepare.json says, in place of fairseq's --bpe and --tokenizer."""

from __future__ import annotations

from fairseq_posattn.text.pipeline import TextPipeline


class PipelineCodec:
    """A codec segments new text as the data were segmented, and joins its translation again."""

    def __init__(self, pipeline: TextPipeline):
        self.pipeline = pipeline

    def encode(self, line: str) -> str:
        """Return the pieces of a raw line."""
        text = self.pipeline.source_text(line)
        return " ".join(self.pipeline.segmenter.segment(text))

    def decode(self, pieces: str) -> str:
        """Return the text of a translation from its pieces."""
        return self.pipeline.detokenized(self.pipeline.segmenter.join(pieces))
