"""Give sentences of SLOG (Li et al. 2023) the dependency trees that their logical forms imply.

A form such as `eat ( agent = cat , theme = * cake ( nmod . on = table ) )` names the words that
depend on each other. What it has no word for (articles, prepositions, auxiliaries, `that`, `to`,
`by`) hangs where Universal Dependencies puts it. The labels are those of syntax (nsubj, obj, obl,
...), never the roles of the form, which would give the answer away.

A sentence is read from left to right beside its form: the arguments of a verb come in the order of
the form, and the first stands before the verb. An argument that is named again, because a relative
clause, a question or an infinitive shares it, has no words of its own (a gap).
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
    """A node of a form: its word in the form, whether it has the article `the`, its edges, and the
    place of its word, which makes no other node of it."""

    name: str
    definite: bool = False
    edges: tuple[tuple[str, Node], ...] = ()
    place: int = field(default=-1, compare=False)

    @property
    def bare(self) -> Node:
        """Return the node as it stands where it is named again."""
        return Node(self.name, self.definite)

    @property
    def arguments(self) -> list[tuple[str, Node]]:
        """Return the edges to arguments, without modifiers."""
        return [(role, child) for role, child in self.edges if not role.startswith(RELATIVE)]


Edge = tuple[int, int, str]  # dependent, head and label


class Read(NamedTuple):
    """What was read of a sentence: the head, the place after it, and the edges inside.

    gap: the label of the shared argument that has no words here, or "" if none was met; `verb`:
    the verb whose argument it is.
    """

    head: int
    end: int
    edges: tuple[Edge, ...]
    gap: str = ""
    verb: int = -1


def read_form(text: str) -> Node:
    """Return the node of a whole form."""
    words = text.split()
    node, end = read_node(words, 0)
    if end != len(words):
        raise InputError(f"'{text}': nothing may follow the form, but there is '{words[end]}'")
    return node


def read_node(words: list[str], at: int) -> tuple[Node, int]:
    """Return the node that begins at a word, and the place after it."""
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
    """A sentence that is read beside its form."""

    def __init__(self, words: list[str]):
        self.words = words
        self.lower = [word.lower() for word in words]

    def word(self, at: int) -> str:
        """Return a word in lower case, or nothing behind the last one."""
        return self.lower[at] if at < len(self.words) else ""

    def noun(self, node: Node, at: int) -> Iterator[Read]:
        """Read a noun with its article and its modifiers."""
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
        """Read the modifiers of a noun: phrases with a preposition, and relative clauses."""
        if not edges:
            yield read
            return
        (role, child), *others = edges
        for found in self.modifier(node, role, child, read):
            together = Read(read.head, found.end, read.edges + found.edges)
            yield from self.modified(node, together, others)

    def modifier(self, node: Node, role: str, child: Node, read: Read) -> Iterator[Read]:
        """Read one modifier of a noun."""
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
        """Read a clause, in which `gap` may be an argument without words.

        subject: that of the verb above, which an infinitive shares.
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
        if gap is not None and first == gap:  # the subject has no words
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
        """Read a verb behind its subject, and the arguments behind it."""
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
        """Read the arguments behind a verb."""
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
        """Read a preposition whose noun is the gap."""
        edges = (*read.edges, (read.end, read.head, "case"))
        yield from self.objects(
            node, Read(read.head, read.end + 1, edges, label, read.head), gap, others
        )

    def object(
        self, node: Node, read: Read, role: str, child: Node, gap: Node | None
    ) -> Iterator[Read]:
        """Read one argument behind its verb."""
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
    """Return the label of a subject."""
    return "nsubj:pass" if passive else "nsubj"


def is_form_of(word: str, verb: str) -> bool:
    """Return whether a word may be a form of a verb: of all verbs, only `ate` begins otherwise."""
    return word[:1] == verb[:1] or (word, verb) == ("ate", "eat")


def prepositions(role: str) -> list[tuple[str, str]]:
    """Return with which prepositions an argument stands behind its verb, and its label then."""
    if role == "agent":
        return [("by", "obl:agent")]
    return [("to", "obl"), ("", "iobj")] if role == "recipient" else [("", "obj")]


def joined(read: Read, part: Read, new: tuple[Edge, ...]) -> Read:
    """Return what was read with one more part of it."""
    gap, verb = (read.gap, read.verb) if read.gap else (part.gap, part.verb)
    return Read(read.head, part.end, read.edges + part.edges + new, gap, verb)


def tree_of(sentence: str, form: str) -> list[tuple[str, int, str]]:
    """Return word, parent (from 1, or 0 for the root) and label of each word of a sentence."""
    words = sentence.split()
    if len(words) == 1:
        return [(words[0], 0, "root")]
    reader, node = Sentence(words), read_form(form)
    end = len(words) - (words[-1] in (".", "?"))
    found = next((read for read in whole(reader, node) if read.end == end), None)
    if found is None:
        raise InputError(f"'{sentence}' cannot be read beside the form '{form}'")
    edges = list(found.edges)
    if end < len(words):
        edges.append((end, found.head, "punct"))
    parents = {dependent: (head + 1, label) for dependent, head, label in edges}
    parents[found.head] = (0, "root")
    return [(word, *parents[at]) for at, word in enumerate(words)]


def whole(reader: Sentence, node: Node) -> Iterator[Read]:
    """Read a sentence, a question, or a noun alone."""
    question = Node("?")
    if reader.word(0) in QUESTIONS and reader.word(1) == "did":
        for read in reader.clause(node, 2, question):
            if read.gap:
                new = ((0, read.verb, read.gap), (1, read.head, "aux"))
                yield read._replace(edges=read.edges + new)
    else:
        yield from reader.clause(node, 0, None)
        yield from reader.noun(node, 0)
