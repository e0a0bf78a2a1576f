"""The choices of prepare.json in the place of fairseq's --bpe and --tokenizer."""

from __future__ import annotations

from fairseq_posattn.text.pipeline import TextPipeline


class PipelineCodec:
    """New text is segmented, and its translation joined, as the data were."""

    def __init__(self, pipeline: TextPipeline):
        self.pipeline = pipeline

    def encode(self, line: str) -> str:
        """The pieces of a raw line."""
        text = self.pipeline.source_text(line)
        return " ".join(self.pipeline.segmenter.segment(text))

    def decode(self, pieces: str) -> str:
        """The text of a translation."""
        return self.pipeline.detokenized(self.pipeline.segmenter.join(pieces))
