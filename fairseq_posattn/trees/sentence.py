"""A sentence with its tree: the one class for what is read, parsed, given by a program or shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fairseq_posattn.trees.checks import flat_tree, with_one_root
from fairseq_posattn.trees.whitespace import escape_whitespace

Multiword = tuple[int, int, str]  # first word (from 0), number of words, form of the token


class Tags(NamedTuple):
    """What CoNLL-U says of a word besides its place in the tree."""

    lemma: str = "_"
    upos: str = "_"
    xpos: str = "_"
    feats: str = "_"


NO_TAGS = Tags()


@dataclass(slots=True)
class Sentence:
    """The words of a sentence, and their tree if it has one.

    words: as the tree has them (in, dem); `tokens` are as the text has them (im).
    parents: the parent of each word, counted from 1, 0 for the root; None: there is no tree.
    multiword: the tokens of several words.
    relations, tags: one for each word; None where nobody needs them.
    note: what was done to the sentence that the user should know.
    path, line: the file, and where the sentence starts in it.
    """

    words: list[str]
    parents: Sequence[int] | None = None
    multiword: list[Multiword] = field(default_factory=list)
    relations: list[str] | None = None
    tags: list[Tags] | None = None
    note: str | None = None
    path: str = ""
    line: int = 0

    def __str__(self) -> str:
        return " ".join(self.tokens)

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}:{self.line}"

    @property
    def tokens(self) -> list[str]:
        """The words as the text has them: im, not in and dem."""
        if not self.multiword:
            return self.words
        tokens = list(self.words)
        for first, count, form in reversed(self.multiword):
            tokens[first : first + count] = [form]
        return tokens

    @property
    def words_of_token(self) -> list[int] | None:
        """How many words each token has; None: one each."""
        if not self.multiword:
            return None
        counts = [1] * len(self.words)
        for first, count, _ in reversed(self.multiword):
            counts[first : first + count] = [count]
        return counts

    def counted_tokens(self) -> Iterator[tuple[str, int]]:
        """The tokens with the number of words of each."""
        counts = self.words_of_token or [1] * len(self.words)
        return zip(self.tokens, counts, strict=True)

    def escaped(self) -> Sentence:
        """The sentence as the text files of the preparation spell it."""
        return replace(
            self,
            words=[escape_whitespace(word) for word in self.words],
            multiword=[(k, count, escape_whitespace(form)) for k, count, form in self.multiword],
        )

    def flat(self, note: str | None = None) -> Sentence:
        """The same words, each a child of the first."""
        parents = flat_tree(len(self.words))
        relations = ["dep" if parent else "root" for parent in parents]
        return replace(self, parents=parents, relations=relations, note=note)

    def without_tree(self, note: str) -> Sentence:
        """The same words without parents."""
        return replace(self, parents=None, relations=None, note=note)


def of_tokens(
    tokens: Sequence[str],
    parents: Sequence[int] | None,
    words_of_token: Sequence[int] | None = None,
) -> Sentence:
    """A sentence of which only the tokens are known: the words of im are called im/1 and im/2."""
    if words_of_token is None:
        return Sentence(list(tokens), parents)
    words: list[str] = []
    multiword = []
    for token, count in zip(tokens, words_of_token, strict=True):
        if count == 1:
            words.append(token)
        else:
            multiword.append((len(words), count, token))
            words += numbered(token, count)
    return Sentence(words, parents, multiword)


def numbered(token: str, count: int) -> list[str]:
    """A name for each of the words of a token: im/1, im/2; a token of one word is its name."""
    return [token] if count == 1 else [f"{token}/{k + 1}" for k in range(count)]


def join_parts(parts: Sequence[Sentence], note: str | None = None) -> Sentence:
    """One sentence of the parts of a line, each with a tree: they hang from the root of the first.

    Further roots, also those within a part, get the relation parataxis.
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
    """The relations after further roots became children of the first."""
    return [
        relation if old == new else "parataxis"
        for relation, old, new in zip(relations, before, after, strict=True)
    ]
