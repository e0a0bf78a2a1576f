"""Load the parser that settings describe."""

from __future__ import annotations

import gc
from functools import lru_cache
from typing import TYPE_CHECKING

from fairseq_posattn.text.parser_settings import ParserSettings

if TYPE_CHECKING:
    from fairseq_posattn.text.parsing.stanza_parser import StanzaParser


@lru_cache(maxsize=1)
def load_parser(settings: ParserSettings) -> StanzaParser:
    """Load the parser once in each process."""
    from fairseq_posattn.text.parsing.stanza_parser import StanzaParser

    parser = StanzaParser(settings)
    gc.freeze()  # the garbage collector need not look through the model again and again
    return parser
