"""The options of posattn binarize-tagging. This module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fairseq_posattn.files.records import one_of, option
from fairseq_posattn.tagging.sentences import TAG_COLUMNS

FILE = "in CoNLL-U or with two columns (word and tag)"


@dataclass(frozen=True, kw_only=True)
class TaggingData:
    """Options of posattn binarize-tagging."""

    command: ClassVar = "posattn binarize-tagging"
    train: str = option(f"train on this file, {FILE}", metavar="FILE", required=True)
    valid: str = option(f"validate on this file, {FILE}", metavar="FILE", required=True)
    test: list[str] = option(
        "test on these files, which become the splits test, test1 and so on",
        [],
        metavar="FILE",
        nargs="*",
    )
    destdir: str = option("write the data to this new folder", metavar="FOLDER", required=True)
    column: str = option(
        "read the tags from this column of CoNLL-U (default: upos)", "upos", one_of(*TAG_COLUMNS)
    )
    words: str = option(
        "keep this many of the most frequent words, as a number or as a share of all distinct "
        "words (default: 50%%)",
        "50%",
    )
    words_from_train: bool = option("count words in --train only, instead of in all files", False)
    max_words: int = option("cut longer sentences into parts of this many words (default: 60)", 60)
    max_chars: int = option("truncate longer words to this many characters (default: 20)", 20)
    overwrite: bool = option("replace DESTDIR if it exists already", False)
