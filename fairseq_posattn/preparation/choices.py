"""How text was made into pieces and trees: chosen once, kept beside the data, used for new text.

prepare.json in a data directory holds the choices and a checksum of the segmenter, that is, of the
merges or the sentencepiece model, which lie there, too.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from fairseq_posattn.files import InputError, read_json
from fairseq_posattn.io.records import as_record, limit, one_of, plain_name
from fairseq_posattn.parsing.parsed import ParsedLine
from fairseq_posattn.parsing.parsers import ParserSettings
from fairseq_posattn.segmenters import SPACE, Segmentation, Segmenter, SentencePiece, SubwordNmt
from fairseq_posattn.trees.forms import plain_form
from fairseq_posattn.trees.projection import SEPARATOR

FILE = "prepare.json"
VERSION = 1
SEGMENTERS = ("subword-nmt", "sentencepiece")
TOKENIZERS = ("moses", "stanza", "spaces")  # spaces: the text is tokenised
CHECKSUM = "segmenter_sha256"


@dataclass(frozen=True)
class Choices:
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

    def __post_init__(self):
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


class Preparation:
    """The choices at work; `folder` holds the segmenter."""

    def __init__(self, choices: Choices, folder: str | os.PathLike, checksum: str | None = None):
        self.choices = choices
        self.folder = Path(folder)
        self.checksum = checksum  # of the segmenter that the data were prepared with

    @classmethod
    def load(cls, folder: str | os.PathLike) -> Preparation:
        path, remedy = Path(folder) / FILE, "prepare the data again"
        about = read_json(path, remedy)
        if about.pop("version", None) != VERSION:
            raise InputError(f"{path}: of another version; {remedy}")
        checksum = about.pop(CHECKSUM, None)  # data of an earlier version have none
        return cls(as_record(Choices, about, str(path), remedy), folder, checksum)

    def save(self, folder: str | os.PathLike) -> None:
        """Write prepare.json into a folder of data in which the segmenter lies."""
        checksum = sha256(Path(folder) / self.choices.segmenter_file)
        about = {"version": VERSION, **asdict(self.choices), CHECKSUM: checksum}
        (Path(folder) / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    def with_parser(self, **changes) -> Preparation:
        """With another folder of models, say: what differs from machine to machine."""
        parser = replace(self.choices.parser, **changes)
        return Preparation(replace(self.choices, parser=parser), self.folder, self.checksum)

    @cached_property
    def segmenter(self) -> Segmenter:
        path = str(self.folder / self.choices.segmenter_file)
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
        if self.choices.splits_words:
            return SubwordNmt(Segmentation(path, self.choices.separator))
        return SentencePiece(path)

    @property
    def separator(self) -> str:
        """What tells the pieces of a word together: see --piece-separator."""
        return self.choices.separator if self.choices.splits_words else SPACE

    # source

    def normal(self, line: str, language: str) -> str:
        """Punctuation as Moses writes it, and plain spaces."""
        if self.choices.normalize:
            line = moses("MosesPunctNormalizer", language).normalize(line)
        return " ".join(line.split())

    def source_text(self, line: str) -> str:
        """What is tokenised and parsed."""
        line = self.normal(line, self.choices.source)
        if self.choices.tokenize == "moses":
            return tokenized(line, self.choices.source)
        return line

    def segmented(self, text: str, words: ParsedLine) -> str:
        """What is segmented: the words, or the text itself."""
        if not self.choices.splits_parsers_words:
            return text
        return " ".join(plain_form(token) for token in words.tokens)

    # target

    def target_text(self, line: str) -> str:
        line = self.normal(line, self.choices.target)
        if self.choices.target_by_moses:
            return tokenized(line, self.choices.target)
        return line

    def detokenized(self, line: str) -> str:
        """A translation, without its pieces' marks, as a reader expects it."""
        if self.choices.target_by_moses:
            detokenizer = moses("MosesDetokenizer", self.choices.target)
            return detokenizer.detokenize(line.split(), unescape=False)
        return line


def sha256(path: str | os.PathLike) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def exists(folder: str | os.PathLike) -> bool:
    return (Path(folder) / FILE).exists()


def tokenized(line: str, language: str) -> str:
    return " ".join(moses("MosesTokenizer", language).tokenize(line, escape=False))


@cache
def moses(kind: str, language: str):
    """A tool of sacremoses."""
    import sacremoses

    return getattr(sacremoses, kind)(lang=language)
