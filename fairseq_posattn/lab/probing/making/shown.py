"""Show a sentence as words between spaces, whatever the words of its tree are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from fairseq_posattn.trees.drawing import depths
from fairseq_posattn.trees.sentence import NO_TAGS, Sentence


@dataclass
class Shown:
    """This is a sentence with a tree, as the file of a task shows it.

    The words of a token such as don't are shown apart, as do and n't. The words of a token such as
    im, which are in and dem, are not in the text, so the token is shown.

    forms: what is shown, with spaces between.
    place: the number of the form in which each word of the tree is shown.
    word: the word of the tree that each form shows, or None where it shows several.
    """

    sentence: Sentence
    forms: list[str]
    place: list[int]
    word: list[int | None]

    @classmethod
    def of(cls, sentence: Sentence) -> Shown:
        """Return a sentence as it is shown."""
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
        """Return the sentence with spaces between its forms."""
        return " ".join(self.forms)

    @cached_property
    def parents(self) -> list[int]:
        """Return the parent of each word, counted from 0, with -1 for the root."""
        return [parent - 1 for parent in self.sentence.parents or ()]

    @property
    def root(self) -> int:
        """Return the root among the words of the tree."""
        return self.parents.index(-1)

    @cached_property
    def depth(self) -> int:
        """Return how many edges lie between the root and the deepest word."""
        return max(depths(self.sentence.parents or ()))

    @cached_property
    def relations(self) -> list[str]:
        """Return the relation of each word without its subtype: nsubj, not nsubj:pass."""
        return [name.partition(":")[0] for name in self.sentence.relations or ()]

    def children(self, parent: int, *relations: str) -> list[int]:
        """Return the children of a word, or those that have one of these relations."""
        return [
            word
            for word, above in enumerate(self.parents)
            if above == parent and (not relations or self.relations[word] in relations)
        ]

    def below(self, top: int) -> set[int]:
        """Return a word with all words below it in the tree."""
        found, new = {top}, [top]
        while new:
            new = [word for word in range(len(self.parents)) if self.parents[word] in new]
            found.update(new)
        return found

    def lower(self, word: int) -> str:
        """Return the form of a word of the tree in lower case."""
        return self.sentence.words[word].lower()

    def upos(self, word: int) -> str:
        """Return the universal part of speech of a word."""
        return (self.sentence.tags or [NO_TAGS] * len(self.parents))[word].upos

    def tag(self, word: int) -> str:
        """Return the finest part of speech of a word that the treebank gives."""
        tags = (self.sentence.tags or [NO_TAGS] * len(self.parents))[word]
        return tags.xpos if tags.xpos != "_" else tags.upos

    def lemma(self, word: int) -> str:
        """Return the lemma of a word, or its form where the treebank gives none."""
        lemma = (self.sentence.tags or [NO_TAGS] * len(self.parents))[word].lemma
        return lemma.lower() if lemma != "_" else self.lower(word)

    def features(self, word: int) -> dict[str, str]:
        """Return the features of a word, such as Tense and Number."""
        feats = (self.sentence.tags or [NO_TAGS] * len(self.parents))[word].feats
        pairs = (part.partition("=") for part in feats.split("|"))
        return {name: value for name, _, value in pairs}

    def is_punctuation(self, place: int) -> bool:
        """Return whether a form is punctuation."""
        word = self.word[place]
        return word is not None and self.upos(word) == "PUNCT"
