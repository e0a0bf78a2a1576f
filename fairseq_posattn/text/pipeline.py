"""How text was made into pieces and trees: chosen once, kept beside the data, used for new text.

prepare.json in a data directory holds the choices and a checksum of the segmenter, that is, of the
merges or the sentencepiece model, which lie there, too.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.checksums import sha256
from fairseq_posattn.io.files import read_json
from fairseq_posattn.io.records import as_record, limit, one_of, plain_name
from fairseq_posattn.text.parser_settings import ParserSettings
from fairseq_posattn.text.segmenters import (
    SPACE,
    Segmentation,
    Segmenter,
    SentencePiece,
    SubwordNmt,
)
from fairseq_posattn.trees.projection import SEPARATOR
from fairseq_posattn.trees.sentence import Sentence
from fairseq_posattn.trees.whitespace import escape_whitespace

FILE = "prepare.json"
VERSION = 1
SEGMENTERS = ("subword-nmt", "sentencepiece")
TOKENIZERS = ("moses", "stanza", "spaces")  # spaces: the text is tokenised
CHECKSUM = "segmenter_sha256"


@dataclass(frozen=True)
class TextConfig:
    """What turns a raw line into pieces, and a translation into text."""

    source: str = field(metadata=plain_name())
    target: str = field(metadata=plain_name())
    normalize: bool = True
    tokenize: str = field(default="stanza", metadata=one_of(*TOKENIZERS))
    target_tokenize: str = field(default="moses", metadata=one_of("moses", "spaces"))
    segmenter: str = field(default="subword-nmt", metadata=one_of(*SEGMENTERS))
    separator: str = field(
        default=SEPARATOR, metadata=limit(lambda text: [text] == text.split(), "one word")
    )
    segmenter_file: str = field(default="segmenter", metadata=plain_name())
    parser: ParserSettings = field(default_factory=ParserSettings)

    def __post_init__(self) -> None:
        if self.target_tokenize == "stanza":
            raise InputError("the target is not parsed: tokenise it with moses, or at spaces")

    @property
    def splits_words(self) -> bool:
        """subword-nmt splits the words of a tokenised line, sentencepiece the line itself."""
        return self.segmenter == "subword-nmt"

    @property
    def splits_parsers_words(self) -> bool:
        """Pieces are those of stanza's words; else they can be made without a parser."""
        return self.splits_words and self.tokenize == "stanza"

    @property
    def target_by_moses(self) -> bool:
        return self.splits_words and self.target_tokenize == "moses"


class TextPipeline:
    """The configuration at work; `folder` holds the segmenter."""

    def __init__(
        self, config: TextConfig, folder: str | os.PathLike[str], checksum: str | None = None
    ):
        self.config = config
        self.folder = Path(folder)
        self.checksum = checksum  # of the segmenter that the data were prepared with

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TextPipeline:
        path, remedy = Path(folder) / FILE, "prepare the data again"
        about = read_json(path, remedy)
        if about.pop("version", None) != VERSION:
            raise InputError(f"{path}: of another version; {remedy}")
        checksum = about.pop(CHECKSUM, None)  # data of an earlier version have none
        return cls(as_record(TextConfig, about, str(path), remedy), folder, checksum)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write prepare.json into a folder of data in which the segmenter lies."""
        checksum = sha256(Path(folder) / self.config.segmenter_file)
        about = {"version": VERSION, **asdict(self.config), CHECKSUM: checksum}
        (Path(folder) / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @cached_property
    def segmenter(self) -> Segmenter:
        path = str(self.folder / self.config.segmenter_file)
        if not Path(path).is_file():
            raise InputError(
                f"{path}: no such file, but {FILE} beside it names it as the segmenter; "
                "copy it to that place, or prepare the data again"
            )
        if self.checksum is not None and sha256(path) != self.checksum:
            raise InputError(
                f"{path}: not the segmenter of which {FILE} beside it holds the checksum; "
                "put that one back, or prepare the data again"
            )
        if self.config.splits_words:
            return SubwordNmt(Segmentation(path, self.config.separator))
        return SentencePiece(path)

    @property
    def separator(self) -> str:
        """What tells the pieces of a word together: see --piece-separator."""
        return self.config.separator if self.config.splits_words else SPACE

    # source

    def normal(self, line: str, language: str) -> str:
        """Punctuation as Moses writes it, and plain spaces."""
        if self.config.normalize:
            line = moses("MosesPunctNormalizer", language).normalize(line)
        return " ".join(line.split())

    def source_text(self, line: str) -> str:
        """What is tokenised and parsed."""
        line = self.normal(line, self.config.source)
        if self.config.tokenize == "moses":
            return tokenized(line, self.config.source)
        return line

    def segmented(self, text: str, words: Sentence) -> str:
        """What is segmented: the words, or the text itself."""
        if not self.config.splits_parsers_words:
            return text
        return " ".join(escape_whitespace(token) for token in words.tokens)

    # target

    def target_text(self, line: str) -> str:
        line = self.normal(line, self.config.target)
        if self.config.target_by_moses:
            return tokenized(line, self.config.target)
        return line

    def detokenized(self, line: str) -> str:
        """A translation, without its pieces' marks, as a reader expects it."""
        if self.config.target_by_moses:
            detokenizer = moses("MosesDetokenizer", self.config.target)
            text: str = detokenizer.detokenize(line.split(), unescape=False)
            return text
        return line


def exists(folder: str | os.PathLike[str]) -> bool:
    return (Path(folder) / FILE).exists()


def tokenized(line: str, language: str) -> str:
    return " ".join(moses("MosesTokenizer", language).tokenize(line, escape=False))


@cache
def moses(kind: str, language: str) -> Any:
    """A tool of sacremoses."""
    import sacremoses

    return getattr(sacremoses, kind)(lang=language)
