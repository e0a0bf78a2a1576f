"""This module holds a sentence with its tree, in one class whether it is read, parsed or shown.

A line holds words separated by one space, and a FORM of CoNLL-U may contain whitespace ("10 000", a
no-break space, U+3000). fairseq and other readers of the line would split such a word, so each
whitespace character within a word is written as the open box, U+2423.

The labels of a word are the name of its relation to its parent, which may have a subtype after a
colon (acl:relcl), and its part of speech. Both are those of Universal Dependencies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fairseq_posattn.trees.checks import flat_tree, with_one_root

OPEN_BOX = "\u2423"
WHITESPACE = re.compile(r"\s")


def shortened(text: str, longest: int = 40) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= longest else text[:longest] + "…"


def escape_whitespace(form: str) -> str:
    """Return the word as the text files of the preparation spell it."""
    return WHITESPACE.sub(OPEN_BOX, form)


Multiword = tuple[int, int, str]  # first word (from 0), number of words, form of the token


class Tags(NamedTuple):
    """Tags hold what CoNLL-U says of a word besides its place in the tree."""

    lemma: str = "_"
    upos: str = "_"
    xpos: str = "_"
    feats: str = "_"


NO_TAGS = Tags()


@dataclass(slots=True)
class Sentence:
    """A sentence has words, and a tree if its parents are known.

    words: the words as the tree has them (in, dem); `tokens` are as the text has them (im).
    parents: the parent of each word, counted from 1, with 0 for the root; None if there is no tree.
    multiword: the tokens that have several words.
    relations, tags: the relation and the tags of each word; None where they are not needed.
    note: what was done to the sentence, if the user should know it.
    path, line: the file, and the line on which the sentence starts.
    text: the line as it was written, where that is known.
    """

    words: list[str]
    parents: Sequence[int] | None = None
    multiword: list[Multiword] = field(default_factory=list)
    relations: list[str] | None = None
    tags: list[Tags] | None = None
    note: str | None = None
    path: str = ""
    line: int = 0
    text: str | None = None

    def __str__(self) -> str:
        return " ".join(self.tokens)

    @property
    def where(self) -> str:
        """Return file and line, with which messages begin."""
        return f"{self.path}:{self.line}"

    @property
    def tokens(self) -> list[str]:
        """Return the words as the text has them: im, not in and dem."""
        if not self.multiword:
            return self.words
        tokens = list(self.words)
        for first, count, form in reversed(self.multiword):
            tokens[first : first + count] = [form]
        return tokens

    @property
    def words_of_token(self) -> list[int] | None:
        """Return how many words each token has, or None if each of them has one."""
        if not self.multiword:
            return None
        counts = [1] * len(self.words)
        for first, count, _ in reversed(self.multiword):
            counts[first : first + count] = [count]
        return counts

    def counted_tokens(self) -> Iterator[tuple[str, int]]:
        counts = self.words_of_token or [1] * len(self.words)
        return zip(self.tokens, counts, strict=True)

    def escaped(self) -> Sentence:
        """Return the sentence as the text files of the preparation spell it."""
        return replace(
            self,
            words=[escape_whitespace(word) for word in self.words],
            multiword=[(k, count, escape_whitespace(form)) for k, count, form in self.multiword],
        )

    def flat(self, note: str | None = None) -> Sentence:
        """Return the same words with a flat tree: each word is a child of the first.

        Parts of speech that are not known are marked as such.
        """
        parents = flat_tree(len(self.words))
        relations = ["dep" if parent else "root" for parent in parents]
        tags = self.tags or [NO_TAGS] * len(parents)
        return replace(self, parents=parents, relations=relations, tags=tags, note=note)

    def without_tree(self, note: str) -> Sentence:
        return replace(self, parents=None, relations=None, note=note)


def of_tokens(
    tokens: Sequence[str],
    parents: Sequence[int] | None,
    words_of_token: Sequence[int] | None = None,
    relations: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Sentence:
    """Make a sentence of which only the tokens are known; the words of im are im/1 and im/2.

    relations, tags: the name of the relation and the universal part of speech of each word.
    """
    names = None if relations is None else list(relations)
    of_words = None if tags is None else [Tags(upos=tag) for tag in tags]
    if words_of_token is None:
        return Sentence(list(tokens), parents, [], names, of_words)
    words: list[str] = []
    multiword = []
    for token, count in zip(tokens, words_of_token, strict=True):
        if count == 1:
            words.append(token)
        else:
            multiword.append((len(words), count, token))
            words += numbered(token, count)
    return Sentence(words, parents, multiword, names, of_words)


def numbered(token: str, count: int) -> list[str]:
    """Return a name for each word of a token: im/1, im/2, or the token itself if it is one word."""
    return [token] if count == 1 else [f"{token}/{k + 1}" for k in range(count)]


def join_parts(parts: Sequence[Sentence], note: str | None = None) -> Sentence:
    """Join the parts of a line, each with a tree, to one sentence.

    All roots but the first become children of the first, also those within a part, and get the
    relation parataxis.
    """
    words: list[str] = []
    parents: list[int] = []
    multiword: list[Multiword] = []
    for part in parts:
        start = len(words)
        multiword += [(first + start, count, form) for first, count, form in part.multiword]
        parents += [parent and parent + start for parent in part.parents or ()]
        words += part.words
    relations = [name for part in parts for name in part.relations or ["_"] * len(part.words)]
    tags = [tag for part in parts for tag in part.tags or [NO_TAGS] * len(part.words)]
    joined = with_one_root(parents)
    return Sentence(words, joined, multiword, mended(relations, parents, joined), tags, note)


def mended(relations: Sequence[str], before: Sequence[int], after: Sequence[int]) -> list[str]:
    """Return the relations, with parataxis for the words whose parent has changed."""
    return [
        relation if old == new else "parataxis"
        for relation, old, new in zip(relations, before, after, strict=True)
    ]


UNKNOWN = "_"
KINDS = ("relations", "tags")


class Labels(NamedTuple):
    """These are the labels of the words of a sentence.

    relations: the name of the relation of each word to its parent, such as nsubj, or `_`.
    tags: the universal part of speech of each word, such as NOUN, or `_`.
    """

    relations: Sequence[str]
    tags: Sequence[str]


class Tree(NamedTuple):
    """A tree of pieces has, for each word, its parent and the number of its pieces.

    labels: the labels of the words, where they are known.
    """

    parents: Sequence[int]
    pieces: Sequence[int]
    labels: Labels | None = None


def labels_of(sentence: Sentence) -> Labels:
    """Return the labels of a sentence as text files spell them, with `_` where one is unknown."""
    relations, tags = unknown(len(sentence.words))
    if sentence.relations is not None:
        relations = [plain(relation) for relation in sentence.relations]
    if sentence.tags is not None:
        tags = [plain(tag.upos) for tag in sentence.tags]
    return Labels(relations, tags)


def unknown(words: int) -> Labels:
    return Labels([UNKNOWN] * words, [UNKNOWN] * words)


def plain(label: str) -> str:
    """Return a label that can stand between spaces; an empty one is unknown."""
    return escape_whitespace(label) or UNKNOWN


def without_subtype(relation: str) -> str:
    """Return the universal part of a relation, acl of acl:relcl; nothing before it is unknown."""
    return relation.partition(":")[0] or UNKNOWN
