"""Load the parser that the settings select."""

import gc
from functools import lru_cache

from fairseq_posattn.text.parsing.options import ParserSettings
from fairseq_posattn.text.parsing.stanza_parser import StanzaParser


@lru_cache(maxsize=1)
def load_parser(settings: ParserSettings) -> StanzaParser:
    """Load a parser; each process caches the parser that it loaded last."""
    kind = StanzaParser
    if settings.parser == "local":
        from fairseq_posattn.text.parsing.local_parser import LocalParser  # imports torch

        kind = LocalParser
    parser = kind(settings)
    gc.freeze()  # exclude the model from garbage collection
    return parser
