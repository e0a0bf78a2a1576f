"""A parsed line, and its place in a CoNLL-U file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fairseq_posattn.trees.checks import flat_tree, with_one_root
from fairseq_posattn.trees.conllu import Block, parse_block
from fairseq_posattn.trees.forms import OPEN_BOX

NO_HEAD = None
# Of all whitespace only spaces stay in a word or a comment: other readers may take the rest for the
# end of a line or of a column.
CONTROL = re.compile(r"[^\S \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
TEXT = "# text = "


class Word(NamedTuple):
    """Columns of CoNLL-U; head from 1, 0 = root, None: the sentence has no tree."""

    form: str
    head: int | None
    deprel: str = "_"
    lemma: str = "_"
    upos: str = "_"
    xpos: str = "_"
    feats: str = "_"


@dataclass
class ParsedLine:
    """The words of a line; multiword: first word (from 0), number of words, form of each token of
    several words; note: what was done that the user should know."""

    words: list[Word]
    multiword: list[tuple[int, int, str]] = field(default_factory=list)
    note: str | None = None

    def __str__(self) -> str:
        return " ".join(self.tokens)

    @property
    def parents(self) -> list[int] | None:
        heads = [word.head for word in self.words]
        return None if NO_HEAD in heads else heads

    @property
    def tokens(self) -> list[str]:
        return [form for form, _ in self.counted_tokens()]

    @property
    def words_of_token(self) -> list[int] | None:
        return [count for _, count in self.counted_tokens()] if self.multiword else None

    def counted_tokens(self) -> Iterator[tuple[str, int]]:
        """The tokens of the text, with the number of words of each."""
        spans = {first: (form, count) for first, count, form in self.multiword}
        k = 0
        while k < len(self.words):
            form, count = spans.get(k, (self.words[k].form, 1))
            yield form, count
            k += count

    def with_heads(self, heads: Sequence[int | None], deprel: str, note: str) -> ParsedLine:
        words = [
            word._replace(head=head, deprel=deprel if head else "root" if head == 0 else "_")
            for word, head in zip(self.words, heads, strict=True)
        ]
        return replace(self, words=words, note=note)

    def flat(self, note: str) -> ParsedLine:
        """Each word a child of the first."""
        return self.with_heads(flat_tree(len(self.words)), "dep", note)

    def without_tree(self, note: str) -> ParsedLine:
        return self.with_heads([NO_HEAD] * len(self.words), "_", note)


def joined(parts: Sequence[ParsedLine], note: str | None = None) -> ParsedLine:
    """Parts of one line, each with a tree, under the root of the first."""
    words, multiword = [], []
    for part in parts:
        start = len(words)
        multiword += [(first + start, *rest) for first, *rest in part.multiword]
        words += [word._replace(head=word.head and word.head + start) for word in part.words]
    heads = with_one_root([word.head for word in words])
    words = [
        word if word.head == head else word._replace(head=head, deprel="parataxis")
        for word, head in zip(words, heads, strict=True)
    ]
    return ParsedLine(words, multiword, note)


def of_block(given: Block, several_roots: str) -> ParsedLine:
    """A block of CoNLL-U made elsewhere, checked; its relations, lemmas and tags as they are."""
    sentence = parse_block(given, several_roots)
    rows = [line.split("\t") for line in given.lines if line[0] != "#"]
    columns = [row[2:8] for row in rows if row[0].isdigit()]
    heads = sentence.parents or [NO_HEAD] * len(columns)
    words = [
        Word(form, head, deprel if str(head) == old or head is None else "parataxis", *tags)
        for form, head, (*tags, old, deprel) in zip(sentence.words, heads, columns, strict=True)
    ]
    return ParsedLine(words, sentence.multiword)


def plain_line(line: str) -> str:
    """A line as a comment can hold it."""
    return CONTROL.sub(OPEN_BOX, line)


def block(line: str, parsed: ParsedLine, number: int) -> str:
    """The block of CoNLL-U for a line; of an empty one, comments alone."""
    rows = [f"# sent_id = {number}", TEXT + plain_line(line)]
    if parsed.note:
        rows.append(f"# note = {plain_line(parsed.note)}")
    tokens = {first: (count, form) for first, count, form in parsed.multiword}
    for k, word in enumerate(parsed.words):
        if k in tokens:
            count, form = tokens[k]
            rows.append(row(f"{k + 1}-{k + count}", form, "_", "_", "_", "_", "_", "_"))
        rows.append(row(str(k + 1), *_columns(word)))
    return "\n".join(rows) + "\n\n"


def row(number: str, form: str, *columns: str) -> str:
    return "\t".join([number, plain_line(form), *columns, "_", "_"])


def _columns(word: Word) -> Iterable[str]:
    head = "_" if word.head is None else str(word.head)
    lemma = plain_line(word.lemma)
    return word.form, lemma, word.upos, word.xpos, word.feats, head, word.deprel
