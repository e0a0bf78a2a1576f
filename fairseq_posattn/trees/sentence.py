"""Sentences with dependency trees and labels.

The FORM of a word in CoNLL-U may contain whitespace ("10 000", a no-break space, U+3000), at which
fairseq and other programs would split the word. Therefore, each whitespace character within a word
is replaced with the open box, U+2423.

The labels of a word are its dependency relation, possibly with a subtype after a colon (acl:relcl),
and its part of speech. Both follow Universal Dependencies.
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
    """Truncate a text for use in a message."""
    return text if len(text) <= longest else text[:longest] + "…"


def escape_whitespace(form: str) -> str:
    """Replace whitespace within a word with the open box, U+2423: "10 000" becomes "10␣000"."""
    return WHITESPACE.sub(OPEN_BOX, form)


Multiword = tuple[int, int, str]  # first word (from 0), number of words, form of the token


class Tags(NamedTuple):
    """The columns LEMMA, UPOS, XPOS and FEATS of a word in CoNLL-U."""

    lemma: str = "_"
    upos: str = "_"
    xpos: str = "_"
    feats: str = "_"


NO_TAGS = Tags()


@dataclass(slots=True)
class Sentence:
    """The words of a sentence and, if available, its dependency tree.

        Sentence(["the", "cat", "sleeps"], [2, 3, 0])

    words: the syntactic words, such as `in` and `dem`. The property `tokens` returns the tokens of
        the text, such as `im`.
    parents: the parent of each word, or None if the sentence has no tree. Words are numbered from
        1, and the parent of the root is 0.
    multiword: the tokens that consist of several words.
    relations, tags: the relation and the tags of each word, or None if they have not been read.
    note: a message for the user about the parsing of this sentence.
    path, line: the file, and the line number at which the sentence starts.
    text: the raw line, if known.
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
        """Return the file name and line number, as a prefix of error messages."""
        return f"{self.path}:{self.line}"

    @property
    def tokens(self) -> list[str]:
        """Return the tokens of the text, such as `im` instead of `in` and `dem`."""
        if not self.multiword:
            return self.words
        tokens = list(self.words)
        for first, count, form in reversed(self.multiword):
            tokens[first : first + count] = [form]
        return tokens

    @property
    def words_of_token(self) -> list[int] | None:
        """Return the number of words of each token, or None if every token is one word."""
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
        """Return the sentence with whitespace escaped, as in preprocessed text files."""
        return replace(
            self,
            words=[escape_whitespace(word) for word in self.words],
            multiword=[(k, count, escape_whitespace(form)) for k, count, form in self.multiword],
        )

    def flat(self, note: str | None = None) -> Sentence:
        """Return the sentence with a flat tree, in which all other words are children of the first.

        Unknown parts of speech become `_`.
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
    """Create a sentence from the tokens of its text.

        Parsed(["im", "Haus"], [3, 3, 0], words_of_token=[2, 1])  # words im/1, im/2, Haus

    Custom parsers call this function by its public name, Parsed.

    words_of_token: number of words of each token, or None if every token is one word.
    relations, tags: the relation and the universal part of speech of each word.
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
    """Return the names of a token's words, as in im/1 and im/2; a single word is not numbered."""
    return [token] if count == 1 else [f"{token}/{k + 1}" for k in range(count)]


def join_parts(parts: Sequence[Sentence], note: str | None = None) -> Sentence:
    """Join the parts of a line, each of which has a tree, into one sentence.

    The first root becomes the root of the sentence. All other roots become children of this word,
    with the relation parataxis.
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
    """Set the relation to parataxis for each word whose parent has changed."""
    return [
        relation if old == new else "parataxis"
        for relation, old, new in zip(relations, before, after, strict=True)
    ]


UNKNOWN = "_"
KINDS = ("relations", "tags")


class Labels(NamedTuple):
    """The labels of the words of a sentence.

    relations: the relation of each word to its parent, such as nsubj, or `_` if unknown.
    tags: the universal part of speech of each word, such as NOUN, or `_` if unknown.
    """

    relations: Sequence[str]
    tags: Sequence[str]


class Tree(NamedTuple):
    """A tree projected onto pieces.

    It contains the parent and the number of pieces of each word, and the labels if they are known.
    """

    parents: Sequence[int]
    pieces: Sequence[int]
    labels: Labels | None = None


def labels_of(sentence: Sentence) -> Labels:
    """Return the labels of a sentence for text files; unknown labels become `_`."""
    relations, tags = unknown(len(sentence.words))
    if sentence.relations is not None:
        relations = [plain(relation) for relation in sentence.relations]
    if sentence.tags is not None:
        tags = [plain(tag.upos) for tag in sentence.tags]
    return Labels(relations, tags)


def unknown(words: int) -> Labels:
    return Labels([UNKNOWN] * words, [UNKNOWN] * words)


def plain(label: str) -> str:
    """Escape whitespace in a label; an empty label becomes `_`."""
    return escape_whitespace(label) or UNKNOWN


def without_subtype(relation: str) -> str:
    """Return a relation without its subtype (acl for acl:relcl), or `_` if nothing remains."""
    return relation.partition(":")[0] or UNKNOWN
