"""Convert sentences with trees to space-separated forms, and collect statistics of the corpus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

from fairseq_posattn.trees.sentence import NO_TAGS, Sentence, Tags

QUOTES = {'"', "``", "''", "“", "”", "„", "«", "»"}
QUOTED = "it has double quotes"
END = "</s>"  # follows the last word in bigrams


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

    @cached_property
    def parents(self) -> list[int]:
        """The index of each word's parent, counted from 0; -1 for the root."""
        return [parent - 1 for parent in self.sentence.parents or ()]

    @property
    def root(self) -> int:
        return self.parents.index(-1)

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
        return {top}.union(*(self.below(child) for child in self.children(top)))

    def top_relations(self) -> str:
        """Return the relations of the root's children without punctuation, such as nsubj_obj."""
        names = [self.relations[word] for word in self.children(self.root)]
        return "_".join(name for name in names if name != "punct") or "NONE"

    def lower(self, word: int) -> str:
        return self.sentence.words[word].lower()

    @cached_property
    def tags(self) -> list[Tags]:
        return self.sentence.tags or [NO_TAGS] * len(self.parents)

    def tag(self, word: int) -> str:
        """Return the XPOS tag of a word, or its UPOS tag if there is none."""
        tags = self.tags[word]
        return tags.xpos if tags.xpos != "_" else tags.upos

    def feature(self, word: int, name: str) -> str:
        """Return a morphological feature of a word, such as Tense, or "" if it has no value."""
        pairs = (part.partition("=") for part in self.tags[word].feats.split("|"))
        return {key: value for key, _, value in pairs}.get(name, "")

    def is_punctuation(self, place: int) -> bool:
        word = self.word[place]
        return word is not None and self.tags[word].upos == "PUNCT"

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


@dataclass
class Counts:
    """The counts of a corpus; all forms except those in `written` are lowercased.

    texts: a hash of each sentence.
    forms: the frequency of each form.
    tagged: the frequency of each form with each part of speech.
    written: the frequency of each spelling, excluding the first words of sentences.
    before, after: the frequencies of the forms that precede and follow each form.
    once: for each form, the number of usable sentences that contain it exactly once.
    top: the frequencies, in usable sentences, of the relations of the root's children.
    """

    texts: set[bytes] = field(default_factory=set)
    forms: Counter[str] = field(default_factory=Counter)
    tagged: Counter[tuple[str, str]] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    after: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    before: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    once: Counter[str] = field(default_factory=Counter)
    top: Counter[str] = field(default_factory=Counter)

    def add(self, shown: Shown, usable: bool, bigrams: bool) -> None:
        """Count a sentence.

        usable: whether tasks may use the sentence.
        bigrams: whether to count bigrams, which require much memory.
        """
        if not shown.forms:
            return
        forms = [form.lower() for form in shown.forms]
        self.texts.add(hash_of(forms))
        self.forms.update(forms)
        self.written.update(shown.forms[1:])
        for form, word in zip(forms, shown.word, strict=True):
            if word is not None:
                self.tagged[form, shown.tag(word)] += 1
        if usable:
            self.once.update(form for form, number in Counter(forms).items() if number == 1)
            self.top[shown.top_relations()] += 1
        if bigrams:
            for first, second in zip(forms, [*forms[1:], END], strict=True):
                self.after[first][second] += 1
                self.before[second][first] += 1

    def has(self, words: Sequence[str]) -> bool:
        """Return whether these words are a sentence of the corpus, ignoring case."""
        return hash_of([word.lower() for word in words]) in self.texts

    @cached_property
    def spellings(self) -> dict[str, str]:
        """The most frequent spelling of each form, excluding the first words of sentences."""
        return {word.lower(): word for word in reversed(ranked(self.written))}

    def inside(self, word: str) -> str:
        """Return how a first word is spelled inside sentences: `the` for `The`, `TV` for `TV`."""
        if word[1:] != word[1:].lower():
            return word
        return self.spellings.get(word.lower(), word.lower())


def hash_of(words: Sequence[str]) -> bytes:
    return blake2b(" ".join(words).encode(), digest_size=8).digest()


def ranked(counts: Counter[str]) -> list[str]:
    """Return the counted strings in order of decreasing frequency."""
    return sorted(counts, key=lambda name: (-counts[name], name))
