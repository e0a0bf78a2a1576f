"""Convert a sentence with a tree to space-separated forms for a task file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.sentence import NO_TAGS, Sentence, Tags

QUOTES = {'"', "``", "''", "“", "”", "„", "«", "»"}
QUOTED = "it has double quotes"


@dataclass
class Shown:
    """A sentence with a tree, and its forms as written to a task file.

    A multiword token is split if its concatenated words equal the token, as in do + n't. Otherwise,
    as in German im = in + dem, the token is a single form.

    forms: the forms, which are separated by spaces in the file.
    place: for each word of the tree, the index of its form.
    word: for each form, the index of its word in the tree, or None if it consists of several words.
    """

    sentence: Sentence
    forms: list[str]
    place: list[int]
    word: list[int | None]

    @classmethod
    def of(cls, sentence: Sentence) -> Shown:
        found, together = cls(sentence, [], [], []), []
        first = 0
        for token, count in sentence.counted_tokens():
            words = sentence.words[first : first + count]
            if count > 1 and "".join(words) != token:
                found.place += [len(found.forms)] * count
                found.forms.append(token)
                found.word.append(None)
                together.append((first, count, token))
            else:
                found.place += range(len(found.forms), len(found.forms) + count)
                found.forms += words
                found.word += range(first, first + count)
            first += count
        found.sentence = replace(sentence, multiword=together)
        return found

    @property
    def text(self) -> str:
        return " ".join(self.forms)

    @cached_property
    def parents(self) -> list[int]:
        """The index of each word's parent, counted from 0; -1 for the root."""
        return [parent - 1 for parent in self.sentence.parents or ()]

    @property
    def root(self) -> int:
        return self.parents.index(-1)

    @cached_property
    def depth(self) -> int:
        return max(depths(self.sentence.parents or ()))

    @cached_property
    def relations(self) -> list[str]:
        """The relation of each word without its subtype: nsubj instead of nsubj:pass."""
        return [name.partition(":")[0] for name in self.sentence.relations or ()]

    def children(self, parent: int, *relations: str) -> list[int]:
        """Return the children of a word, or only the children with one of the given relations."""
        return [
            word
            for word, above in enumerate(self.parents)
            if above == parent and (not relations or self.relations[word] in relations)
        ]

    def below(self, top: int) -> set[int]:
        """Return a word and its descendants."""
        found, new = {top}, [top]
        while new:
            new = [word for word in range(len(self.parents)) if self.parents[word] in new]
            found.update(new)
        return found

    def lower(self, word: int) -> str:
        return self.sentence.words[word].lower()

    @cached_property
    def tags(self) -> list[Tags]:
        return self.sentence.tags or [NO_TAGS] * len(self.parents)

    def upos(self, word: int) -> str:
        return self.tags[word].upos

    def tag(self, word: int) -> str:
        """Return the XPOS tag of a word, or its UPOS tag if there is none."""
        xpos = self.tags[word].xpos
        return xpos if xpos != "_" else self.upos(word)

    def features(self, word: int) -> dict[str, str]:
        """Return the morphological features of a word, such as {"Tense": "Past"}."""
        pairs = (part.partition("=") for part in self.tags[word].feats.split("|"))
        return {name: value for name, _, value in pairs}

    def is_punctuation(self, place: int) -> bool:
        word = self.word[place]
        return word is not None and self.upos(word) == "PUNCT"

    @property
    def has_quotes(self) -> bool:
        return any(quote in form for form in self.forms for quote in QUOTES)

    def clauses(self) -> tuple[list[str], list[str], list[str], list[str]] | str:
        """Return the first clause, conjunction, second clause and final punctuation.

        If the sentence does not have these parts, return a string that states why. Punctuation
        before the conjunction belongs to the conjunction.
        """
        if self.has_quotes:
            return QUOTED
        if self.is_punctuation(0):
            return "it starts with punctuation"
        joints = [word for word, name in enumerate(self.relations) if name == "cc"]
        if len(joints) != 1:
            return "it does not have exactly one coordinating conjunction"
        second, root = self.parents[joints[0]], self.root
        if self.relations[second] != "conj" or self.parents[second] != root:
            return "its conjunction does not coordinate the root"
        if len(self.children(root, "conj")) > 1:
            return "it coordinates more than two clauses"
        if not all(self.children(word, "nsubj", "csubj") for word in (root, second)):
            return "its conjunction does not coordinate two clauses with subjects"
        inside = {self.place[word] for word in self.below(second)}
        at = self.place[joints[0]]
        begin = at - 1 if at and self.is_punctuation(at - 1) else at
        end = len(self.forms)
        while end > at and self.is_punctuation(end - 1):
            end -= 1
        parts = self.forms[:begin], self.forms[at + 1 : end]
        if not set(range(at, end)) <= inside or inside - set(range(begin, len(self.forms))):
            return "its second clause is not what follows the conjunction"
        if min(map(len, parts)) < 2:
            return "one of its clauses consists of a single word"
        return parts[0], self.forms[begin : at + 1], parts[1], self.forms[end:]
