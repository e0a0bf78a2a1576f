"""Convert raw text to pieces and trees, in the same way for new text as for the training data.

prepare.json in a data folder contains the settings and a checksum of the segmenter. The segmenter
itself (subword-nmt merges or a sentencepiece model) is stored in the same folder.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_json, sha256
from fairseq_posattn.files.records import ABSENT, as_document, as_record, limit, one_of, plain_name
from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.segmenters import (
    SPACE,
    Segmentation,
    Segmenter,
    SentencePiece,
    SubwordNmt,
    Words,
)
from fairseq_posattn.trees.control import OF_WORDS, TreeControl
from fairseq_posattn.trees.projection import SEPARATOR
from fairseq_posattn.trees.sentence import Sentence, escape_whitespace

FILE = "prepare.json"
VERSION = 1
SEGMENTERS = ("subword-nmt", "sentencepiece", "words")
TOKENIZERS = ("moses", "stanza", "spaces")  # spaces: the text is already tokenised
TARGET_TOKENIZERS = ("moses", "spaces")
CHECKSUM = "segmenter_sha256"
MODELS_FROM_HERE = "model_dir_from_here"  # the path of `model_dir` relative to the data folder


@dataclass(frozen=True)
class TextConfig:
    """The settings for segmenting raw lines and for detokenising translations."""

    source: str = field(metadata=plain_name())
    target: str = field(metadata=plain_name())
    normalize: bool = True
    tokenize: str = field(default="stanza", metadata=one_of(*TOKENIZERS))
    target_tokenize: str = field(default="moses", metadata=one_of(*TARGET_TOKENIZERS))
    segmenter: str = field(default="subword-nmt", metadata=one_of(*SEGMENTERS))
    separator: str = field(
        default=SEPARATOR, metadata=limit(lambda text: [text] == text.split(), "one word")
    )
    segmenter_file: str = field(default="segmenter", metadata=plain_name())
    parser: ParserSettings = field(default_factory=ParserSettings)
    control: TreeControl = field(default_factory=TreeControl)
    lowercase: bool = False
    source_code: str = ABSENT  # Moses's language code, if it differs from the name
    target_code: str = ABSENT

    def __post_init__(self) -> None:
        if self.target_tokenize == "stanza":
            raise InputError(
                "--target-tokenize stanza is not possible, because the target is not parsed; "
                "choose moses or spaces"
            )
        if not self.parsed and self.control and self.control.needs_trees:
            raise InputError(
                f"the control '{self.control.tag}' changes parsed trees, but --parser none creates "
                f"none; choose a parser, or one of the controls {', '.join(OF_WORDS)}"
            )

    @property
    def source_language(self) -> str:
        return self.source_code or self.source

    @property
    def target_language(self) -> str:
        return self.target_code or self.target

    @property
    def parsed(self) -> bool:
        return self.parser.parser != "none"

    @property
    def has_trees(self) -> bool:
        """Whether the data contain trees, from a parser or control trees."""
        return self.parsed or bool(self.control)

    @property
    def splits_words(self) -> bool:
        """Whether the segmenter processes words, unlike sentencepiece, which processes lines."""
        return self.segmenter != "sentencepiece"

    def segmenter_of(self, path: str) -> Segmenter:
        """Load the segmenter from a file."""
        if self.segmenter == "words":
            return Words(self.separator)
        if self.splits_words:
            return SubwordNmt(Segmentation(path, self.separator))
        return SentencePiece(path)

    @property
    def splits_parsers_words(self) -> bool:
        """Whether the segmenter splits the words of stanza's tokeniser, which must run first."""
        return self.splits_words and self.tokenize == "stanza"

    @property
    def target_by_moses(self) -> bool:
        return self.splits_words and self.target_tokenize == "moses"


class TextPipeline:
    """Applies a configuration to text.

    folder: the folder that contains the segmenter.
    checksum: the checksum of the segmenter that was used for the training data.
    """

    def __init__(
        self, config: TextConfig, folder: str | os.PathLike[str], checksum: str | None = None
    ):
        self.config = config
        self.folder = Path(folder)
        self.checksum = checksum

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TextPipeline:
        path, remedy = Path(folder) / FILE, "prepare the data again"
        about = read_json(path, remedy)
        if about.pop("version", None) != VERSION:
            raise InputError(f"{path}: the file was written by another version; {remedy}")
        checksum = about.pop(CHECKSUM, None)  # missing in data of an earlier version
        from_here = about.pop(MODELS_FROM_HERE, None)
        config = as_record(TextConfig, about, str(path), remedy)
        return cls(with_models_found(config, Path(folder), from_here), folder, checksum)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write prepare.json to a data folder, which must contain the segmenter."""
        checksum = sha256(Path(folder) / self.config.segmenter_file)
        about = {"version": VERSION, **as_document(self.config), CHECKSUM: checksum}
        if models := self.config.parser.model_dir:
            about[MODELS_FROM_HERE] = os.path.relpath(models, folder)
        (Path(folder) / FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

    @cached_property
    def segmenter(self) -> Segmenter:
        """The segmenter; raises an InputError if its file is missing or has another checksum."""
        path = str(self.folder / self.config.segmenter_file)
        if not Path(path).is_file():
            raise InputError(
                f"{path}: the file is missing, but {FILE} names it as the segmenter; copy it to "
                "this folder, or prepare the data again"
            )
        if self.checksum is not None and sha256(path) != self.checksum:
            raise InputError(
                f"{path}: the checksum differs from that of the segmenter in {FILE}; restore the "
                "original file, or prepare the data again"
            )
        return self.config.segmenter_of(path)

    @property
    def separator(self) -> str:
        """The piece separator, in the format of --piece-separator."""
        return self.config.separator if self.config.splits_words else SPACE

    # source

    def normal(self, line: str, language: str) -> str:
        """Normalise whitespace and, if configured, punctuation (as Moses does)."""
        if self.config.normalize:
            line = moses("MosesPunctNormalizer", language).normalize(line)
        return " ".join(line.split())

    def source_text(self, line: str) -> str:
        """Normalise a source line for the parser; if Moses is used, also tokenise it."""
        line = self.normal(line, self.config.source_language)
        if self.config.tokenize == "moses":
            return tokenized(line, self.config.source_language)
        return line

    def segmented(self, text: str, words: Sentence | None) -> str:
        """Return the text to segment: the words of the parser, or the text itself.

        Only this text is lowercased, because parsers rely on case.
        """
        if self.config.splits_parsers_words and words is not None:
            text = " ".join(escape_whitespace(token) for token in words.tokens)
        return self.cased(text)

    def cased(self, text: str) -> str:
        return text.lower() if self.config.lowercase else text

    # target

    def target_text(self, line: str) -> str:
        """Return the text to segment for a target line."""
        line = self.normal(line, self.config.target_language)
        if self.config.target_by_moses:
            line = tokenized(line, self.config.target_language)
        return self.cased(line)

    def detokenized(self, line: str) -> str:
        if self.config.target_by_moses:
            detokenizer = moses("MosesDetokenizer", self.config.target_language)
            text: str = detokenizer.detokenize(line.split(), unescape=False)
            return text
        return line


def with_models_found(config: TextConfig, folder: Path, from_here: object) -> TextConfig:
    """Return the configuration with the current path of the stanza models.

    If the recorded folder no longer exists, it may have been moved together with the data.
    """
    models = config.parser.model_dir
    if not models or not isinstance(from_here, str) or Path(models).exists():
        return config
    moved = Path(os.path.normpath(folder.absolute() / from_here))
    if not moved.exists():
        return config
    return replace(config, parser=replace(config.parser, model_dir=str(moved)))


def exists(folder: str | os.PathLike[str]) -> bool:
    return (Path(folder) / FILE).exists()


def tokenized(line: str, language: str) -> str:
    return " ".join(moses("MosesTokenizer", language).tokenize(line, escape=False))


@cache
def moses(kind: str, language: str) -> Any:
    import sacremoses

    return getattr(sacremoses, kind)(lang=language)
