"""Write words without whitespace inside, so that a line can hold them separated by one space.

A FORM of CoNLL-U may contain whitespace ("10 000", a no-break space, U+3000). fairseq and other
readers of the line would split such a word, so each whitespace character within a word is written
as the open box, U+2423.
"""

import re

OPEN_BOX = "\u2423"
WHITESPACE = re.compile(r"\s")


def shortened(text: str, longest: int = 40) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= longest else text[:longest] + "…"


def escape_whitespace(form: str) -> str:
    """Return the word as the text files of the preparation spell it."""
    return WHITESPACE.sub(OPEN_BOX, form)
