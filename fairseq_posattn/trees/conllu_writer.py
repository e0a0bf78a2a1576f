"""Write parsed lines as blocks of CoNLL-U."""

from __future__ import annotations

import re

from fairseq_posattn.trees.sentence import NO_TAGS, Sentence
from fairseq_posattn.trees.whitespace import OPEN_BOX

# Only spaces stay in a word or a comment. Other readers may take any other whitespace for the end
# of a line or of a column.
CONTROL = re.compile(r"[^\S \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
TEXT = "# text = "


def plain_line(line: str) -> str:
    """Return a line as a comment of CoNLL-U can hold it."""
    return CONTROL.sub(OPEN_BOX, line)


def block(line: str, sentence: Sentence, number: int) -> str:
    """Return the block of CoNLL-U for a line; that of an empty line has comments alone."""
    rows = [f"# sent_id = {number}", TEXT + plain_line(line)]
    if sentence.note:
        rows.append(f"# note = {plain_line(sentence.note)}")
    tokens = {first: (count, form) for first, count, form in sentence.multiword}
    for k, word in enumerate(word_rows(sentence)):
        if k in tokens:
            count, form = tokens[k]
            rows.append(row(f"{k + 1}-{k + count}", form, "_", "_", "_", "_", "_", "_"))
        rows.append(word)
    return "\n".join(rows) + "\n\n"


def word_rows(sentence: Sentence) -> list[str]:
    """Return a row for each word, with `_` where nothing is known."""
    nothing = ["_"] * len(sentence.words)
    parents = nothing if sentence.parents is None else map(str, sentence.parents)
    relations = sentence.relations or nothing
    tags = sentence.tags or [NO_TAGS] * len(nothing)
    columns = zip(sentence.words, tags, parents, relations, strict=True)
    return [
        row(str(number), word, plain_line(lemma), upos, xpos, feats, parent, relation)
        for number, (word, (lemma, upos, xpos, feats), parent, relation) in enumerate(columns, 1)
    ]


def row(number: str, form: str, *columns: str) -> str:
    """Return one line of a block; its last two columns are empty."""
    return "\t".join([number, plain_line(form), *columns, "_", "_"])
