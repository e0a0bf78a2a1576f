"""Convert logical forms of SLOG (Li et al. 2023) to dependency trees of the sentences.

A form such as `eat ( agent = cat , theme = * cake ( nmod . on = table ) )` shows the dependencies
between its words. Words that it does not contain (articles, prepositions, auxiliaries, `that`,
`to`, `by`) are attached as in Universal Dependencies. The labels are syntactic relations (nsubj,
obj, obl, ...), not the roles of the form, as these would reveal the target.

A sentence is parsed from left to right, guided by its form: the arguments of a verb occur in the
order of the form, the first one before the verb. An argument that the form repeats, because a
relative clause, a question or an infinitive shares it, has no words of its own (a gap).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fairseq_posattn.errors import InputError

ARTICLES = ("a", "an", "the")
QUESTIONS = ("who", "what")
PLACE = "nmod . "
RELATIVE = "nmod"
LABELS = {"agent": "nsubj", "theme": "obj", "recipient": "iobj"}


@dataclass(frozen=True)
class Node:
    """A node of a form.

    name: its word. definite: whether it has the article `the`. edges: roles and child nodes.
    place: the position of its word in the form, which is ignored in comparisons.
    """

    name: str
    definite: bool = False
    edges: tuple[tuple[str, Node], ...] = ()
    place: int = field(default=-1, compare=False)

    @property
    def bare(self) -> Node:
        """The node without edges, as the form repeats it."""
        return Node(self.name, self.definite)

    @property
    def arguments(self) -> list[tuple[str, Node]]:
        """The edges to arguments, without modifiers."""
        return [(role, child) for role, child in self.edges if not role.startswith(RELATIVE)]


Edge = tuple[int, int, str]  # dependent, head and label


class Read(NamedTuple):
    """A parsed part of a sentence: its head, its end (exclusive), and its edges.

    gap: the label of an argument without words (a gap), or "" if there is none. verb: the verb of
    that argument.
    """

    head: int
    end: int
    edges: tuple[Edge, ...]
    gap: str = ""
    verb: int = -1


def read_form(text: str) -> Node:
    """Parse a complete form; raise an InputError if text follows it."""
    words = text.split()
    node, end = read_node(words, 0)
    if end != len(words):
        raise InputError(f"'{words[end]}' follows the end of the form '{text}'")
    return node


def read_node(words: list[str], at: int) -> tuple[Node, int]:
    """Parse the node that starts at word `at`; return it with its end (exclusive)."""
    definite = words[at] == "*"
    place = at + definite
    name, at = words[place], place + 1
    edges: list[tuple[str, Node]] = []
    if words[at : at + 1] == ["("]:
        while words[at] != ")":
            equals = words.index("=", at)
            role = " ".join(words[at + 1 : equals])
            child, at = read_node(words, equals + 1)
            edges.append((role, child))
        at += 1
    return Node(name, definite, tuple(edges), place), at


class Sentence:
    """A sentence, and methods that parse its parts guided by the form, yielding all analyses."""

    def __init__(self, words: list[str]):
        self.words = words
        self.lower = [word.lower() for word in words]

    def word(self, at: int) -> str:
        """Return a word in lower case, or "" after the last word."""
        return self.lower[at] if at < len(self.words) else ""

    def noun(self, node: Node, at: int) -> Iterator[Read]:
        """Parse a noun with its article and its modifiers."""
        edges: tuple[Edge, ...] = ()
        if self.word(at) in ARTICLES:
            if node.definite != (self.word(at) == "the"):
                return
            edges, at = ((at, at + 1, "det"),), at + 1
        elif node.definite:
            return
        question = node.name == "?" and self.word(at) in QUESTIONS
        if question or (at < len(self.words) and self.words[at] == node.name):
            yield from self.modified(node, Read(at, at + 1, edges), list(node.edges))

    def modified(self, node: Node, read: Read, edges: list[tuple[str, Node]]) -> Iterator[Read]:
        """Parse the modifiers of a noun: prepositional phrases and relative clauses."""
        if not edges:
            yield read
            return
        (role, child), *others = edges
        for found in self.modifier(node, role, child, read):
            together = Read(read.head, found.end, read.edges + found.edges)
            yield from self.modified(node, together, others)

    def modifier(self, node: Node, role: str, child: Node, read: Read) -> Iterator[Read]:
        """Parse one modifier of a noun."""
        at = read.end
        if role.startswith(PLACE):
            if self.word(at) == role.removeprefix(PLACE):
                for noun in self.noun(child, at + 1):
                    new = ((at, noun.head, "case"), (noun.head, read.head, "nmod"))
                    yield Read(noun.head, noun.end, noun.edges + new)
        elif self.word(at) == "that":
            for clause in self.clause(child, at + 1, node.bare):
                if clause.gap:
                    new = ((at, clause.verb, clause.gap), (clause.head, read.head, "acl:relcl"))
                    yield Read(clause.head, clause.end, clause.edges + new)

    def clause(self, node: Node, at: int, gap: Node | None, subject: Node | None = None):
        """Parse a clause, in which the argument `gap` may have no words.

        subject: the subject of the governing verb, which an infinitive shares.
        """
        arguments = node.arguments
        if subject is not None:
            if arguments and arguments[0][1] in (subject, subject.bare):
                yield from self.verb(node, at, gap, arguments[1:], ())
            return
        if not arguments:
            yield from self.verb(node, at, gap, [], ())
            return
        (_, first), *others = arguments
        if gap is not None and first == gap:  # the gap is the subject
            for read in self.verb(node, at, None, others, ()):
                passive = any(
                    label == "aux:pass" for _, head, label in read.edges if head == read.head
                )
                label = "nsubj:pass" if passive else "nsubj"
                yield read._replace(gap=label, verb=read.head)
        for noun in self.noun(first, at):
            yield from self.verb(node, noun.end, gap, others, noun.edges, noun.head)

    def verb(
        self,
        node: Node,
        at: int,
        gap: Node | None,
        arguments: list[tuple[str, Node]],
        edges: tuple[Edge, ...],
        subject: int | None = None,
    ) -> Iterator[Read]:
        """Parse a verb after its subject, and the arguments after the verb."""
        passive = self.word(at) == "was"
        head = at + passive
        if not is_form_of(self.word(head), node.name):
            return
        if passive:
            edges += ((at, head, "aux:pass"),)
        if subject is not None:
            edges += ((subject, head, subject_label(passive)),)
        yield from self.objects(node, Read(head, head + 1, edges), gap, arguments)

    def objects(
        self, node: Node, read: Read, gap: Node | None, arguments: list[tuple[str, Node]]
    ) -> Iterator[Read]:
        """Parse the arguments after a verb."""
        if not arguments:
            yield read
            return
        (role, child), *others = arguments
        if gap is not None and child == gap and not read.gap:
            label, end, edges = LABELS.get(role, role), read.end, read.edges
            if role == "agent" and self.word(end) == "by":
                yield from self.stranded(node, read, gap, others, "obl:agent")
            elif role == "recipient" and self.word(end) == "to":
                yield from self.stranded(node, read, gap, others, "obl")
            else:
                found = Read(read.head, end, edges, label, read.head)
                yield from self.objects(node, found, gap, others)
        for found in self.object(node, read, role, child, gap):
            yield from self.objects(node, found, gap, others)

    def stranded(self, node: Node, read: Read, gap: Node, others, label: str) -> Iterator[Read]:
        """Parse a stranded preposition, whose noun is the gap."""
        edges = (*read.edges, (read.end, read.head, "case"))
        yield from self.objects(
            node, Read(read.head, read.end + 1, edges, label, read.head), gap, others
        )

    def object(
        self, node: Node, read: Read, role: str, child: Node, gap: Node | None
    ) -> Iterator[Read]:
        """Parse one argument after its verb."""
        at, head = read.end, read.head
        open_gap = None if read.gap else gap
        if role == "ccomp":
            if self.word(at) == "that":
                for clause in self.clause(child, at + 1, open_gap):
                    new = ((at, clause.head, "mark"), (clause.head, head, "ccomp"))
                    yield joined(read, clause, new)
        elif role == "xcomp":
            if self.word(at) == "to":
                shared = node.arguments[0][1]
                for clause in self.clause(child, at + 1, open_gap, shared):
                    new = ((at, clause.head, "mark"), (clause.head, head, "xcomp"))
                    yield joined(read, clause, new)
        else:
            for word, label in prepositions(role):
                if not word or self.word(at) == word:
                    for noun in self.noun(child, at + bool(word)):
                        new = ((at, noun.head, "case"),) if word else ()
                        yield joined(read, noun, (*new, (noun.head, head, label)))


def subject_label(passive: bool) -> str:
    return "nsubj:pass" if passive else "nsubj"


def is_form_of(word: str, verb: str) -> bool:
    """Return whether a word may be a form of a verb: the same first letter, or `ate` for `eat`."""
    return word[:1] == verb[:1] or (word, verb) == ("ate", "eat")


def prepositions(role: str) -> list[tuple[str, str]]:
    """Return the prepositions that an argument may have after its verb, each with a label."""
    if role == "agent":
        return [("by", "obl:agent")]
    return [("to", "obl"), ("", "iobj")] if role == "recipient" else [("", "obj")]


def joined(read: Read, part: Read, new: tuple[Edge, ...]) -> Read:
    gap, verb = (read.gap, read.verb) if read.gap else (part.gap, part.verb)
    return Read(read.head, part.end, read.edges + part.edges + new, gap, verb)


def tree_of(sentence: str, form: str) -> list[tuple[str, int, str]]:
    """Return word, parent (from 1; 0 for the root) and label of each word of a sentence.

    Raise an InputError if sentence and form do not match.
    """
    words = sentence.split()
    if len(words) == 1:
        return [(words[0], 0, "root")]
    reader, node = Sentence(words), read_form(form)
    end = len(words) - (words[-1] in (".", "?"))
    found = next((read for read in whole(reader, node) if read.end == end), None)
    if found is None:
        raise InputError(f"'{sentence}' does not match the form '{form}'")
    edges = list(found.edges)
    if end < len(words):
        edges.append((end, found.head, "punct"))
    parents = {dependent: (head + 1, label) for dependent, head, label in edges}
    parents[found.head] = (0, "root")
    return [(word, *parents[at]) for at, word in enumerate(words)]


def whole(reader: Sentence, node: Node) -> Iterator[Read]:
    """Parse a sentence, a question, or a single noun phrase."""
    question = Node("?")
    if reader.word(0) in QUESTIONS and reader.word(1) == "did":
        for read in reader.clause(node, 2, question):
            if read.gap:
                new = ((0, read.verb, read.gap), (1, read.head, "aux"))
                yield read._replace(edges=read.edges + new)
    else:
        yield from reader.clause(node, 0, None)
        yield from reader.noun(node, 0)
