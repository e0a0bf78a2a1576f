"""The options of posattn binarize-tagging, which are read before torch is imported."""

from __future__ import annotations

from dataclasses import dataclass

from fairseq_posattn.io.argument_types import option
from fairseq_posattn.text.tagging.sentences import TAG_COLUMNS

FILE = "is CoNLL-U, or has two columns (word and tag)"


@dataclass(frozen=True, kw_only=True)
class TaggingData:
    """This says what data of the tagging task are made from, and how; each field is an option of
    posattn binarize-tagging."""

    train: str = option(f"learn tags from this file, which {FILE}", metavar="FILE", required=True)
    valid: str = option(f"validate on this file, which {FILE}", metavar="FILE", required=True)
    test: list[str] = option(
        "test on these files, which become the splits test, test1 and so on",
        *([], "", "FILE"),
        nargs="*",
    )
    destdir: str = option("write the data into this new folder", metavar="FOLDER", required=True)
    column: str = option(
        "read the tags from this column of CoNLL-U (default: upos)",
        "upos",
        choices=list(TAG_COLUMNS),
    )
    words: str = option(
        "keep this many words, a number or a share of all distinct words (default: 50%%)", "50%"
    )
    words_from_train: bool = option(
        "take the words from --train alone, and not from all files", False
    )
    max_words: int = option("cut longer sentences into parts of this many words (default: 60)", 60)
    max_chars: int = option("read only this many characters of longer words (default: 20)", 20)
    overwrite: bool = option("replace DESTDIR if it exists already", False)
