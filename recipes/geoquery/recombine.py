"""Make new training examples by exchanging subtrees of questions that express parts of programs.

Jia and Liang (2016) exchange entities and phrases, Yang et al. (2022) subtrees. Here, a unit is a
word with all its descendants, if they express a connected part of the program that no other
word expresses: a term, or a term without one of its subterms (its hole), such as largest(...). A
unit may replace another one of the same signature: the same kinds of term and hole, and the same
relation. All modifiers that follow their noun count as one relation; one of them may also be added
to a noun without a modifier, such as `city` in the program city(all).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from constituency import NOUNS, Word
from entities import PLACEHOLDERS
from example import Example
from funql import ALL, KINDS, Term

MODIFIER = "modifier"
MODIFIERS = ("PP", "SBAR", "VP", "nmod", "acl", "acl:relcl")  # the last three: UD
MOST_WORDS, MOST_NAMES, MOST_EXCHANGES = 24, 14, 4
PATIENCE = 1000  # failures in a row
FRESH = 1000  # is added to the nodes of a new unit in each exchange
HOLE = Term("<hole>")
UNKNOWN, UNKNOWN_SHARE = "<unk>", 0.1


@dataclass(frozen=True)
class Unit:
    """A part of an example.

    start, end: its words. top: its highest word, or -1 for a place where a modifier may be added.
    parent: the parent of its highest word. term: its part of the program. hole: the subterm that
    other words express. signature: what an exchange must preserve.
    """

    example: Example
    start: int
    end: int
    top: int
    parent: int
    term: Term
    hole: Term | None
    signature: tuple[str, str, str]

    @property
    def shown(self) -> tuple[str, ...]:
        """The words and names of the unit, to recognize equal units."""
        words = (word.form for word in self.example.words[self.start : self.end])
        return (*words, *(part.name for part in renumbered(self.term, self.hole, 0).parts))


def recombined(
    examples: Sequence[Example], count: int, unknown: float = UNKNOWN_SHARE, seed: int = 1
) -> list[Example]:
    """Return `count` examples with new questions, or fewer if no more are found.

    unknown: share of the words that are replaced by the unknown word.
    """
    draw = random.Random(seed)
    pool: dict[tuple[str, str, str], dict[tuple[str, ...], Unit]] = {}
    for one in examples:
        for unit in units(one):
            pool.setdefault(unit.signature, {}).setdefault(unit.shown, unit)
    choices = {signature: list(alike.values()) for signature, alike in pool.items()}
    seen = {one.text for one in examples}
    found: list[Example] = []
    failures = 0
    while len(found) < count and failures < PATIENCE:
        new = draw.choice(examples)
        for exchange in range(1, draw.randint(1, MOST_EXCHANGES) + 1):
            sites = [site for site in sites_in(new) if site.signature in choices]
            if sites:
                site = draw.choice(sites)
                new = exchanged(site, draw.choice(choices[site.signature]), FRESH * exchange)
        failures += 1
        if new.text not in seen and fits(new):
            seen.add(new.text)
            found.append(with_unknown(new, unknown, draw))
            failures = 0
    return found


def with_unknown(example: Example, share: float, draw: random.Random) -> Example:
    """Replace some words by `<unk>`, so that a model learns to handle unknown words."""
    words = [
        replace(word, form=UNKNOWN)
        if draw.random() < share and word.form not in PLACEHOLDERS
        else word
        for word in example.words
    ]
    return replace(example, words=words)


def fits(example: Example) -> bool:
    """Return whether an example is short, has a complete program, and repeats no entity."""
    forms = [word.form for word in example.words]
    short = len(forms) <= MOST_WORDS and len(list(example.program.parts)) <= MOST_NAMES
    return (
        short
        and example.program.is_complete
        and all(forms.count(mark) <= 1 for mark in PLACEHOLDERS)
    )


def sites_in(example: Example) -> Iterator[Unit]:
    """Yield the units of an example, and the places where a modifier may be added."""
    yield from units(example)
    below = descendants(example.words)
    for term in example.program.parts:
        if term.name in KINDS and term.arguments[0].name == ALL:
            for k, word in enumerate(example.words):
                if word.tag in NOUNS and term.nodes & example.nodes[k]:
                    end, signature = max(below[k]) + 1, (term.kind, "", MODIFIER)
                    yield Unit(example, end, end, -1, k, term.arguments[0], None, signature)


def units(example: Example) -> Iterator[Unit]:
    """Yield the units of an example."""
    words = example.words
    for top, (word, own) in enumerate(zip(words, descendants(words), strict=True)):
        start, end = min(own), max(own) + 1
        if word.parent < 0 or end - start != len(own):
            continue
        inside = together(example.nodes[start:end])
        outside = together([*example.nodes[:start], *example.nodes[end:]])
        if divided := None if inside & outside else region(example.program, inside, outside):
            term, hole = divided
            signature = (term.kind, hole.kind if hole else "", relation(words, top))
            yield Unit(example, start, end, top, word.parent, term, hole, signature)


def relation(words: Sequence[Word], at: int) -> str:
    parent = words[at].parent
    if words[at].relation in MODIFIERS and parent < at and words[parent].tag in NOUNS:
        return MODIFIER
    return words[at].relation


def descendants(words: Sequence[Word]) -> list[set[int]]:
    """Return, for each word, the positions of it and all words below it."""
    below: list[set[int]] = [set() for _ in words]
    for k in range(len(words)):
        at = k
        while at >= 0:
            below[at].add(k)
            at = words[at].parent
    return below


def together(nodes: Sequence[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*nodes)


def nodes_in(term: Term) -> frozenset[int]:
    return together([part.nodes for part in term.parts])


def region(
    program: Term, inside: frozenset[int], outside: frozenset[int]
) -> tuple[Term, Term | None] | None:
    """Return the term whose name has nodes `inside`, and its hole, which has nodes `outside`.

    Return None if the nodes are not divided in this way.
    """
    for term in program.parts:
        if term.nodes & inside:
            if not inside <= nodes_in(term):
                return None
            if not nodes_in(term) & outside:
                return term, None
            for hole in term.parts:
                around = nodes_in(term) - nodes_in(hole)
                if not nodes_in(hole) & inside and not around & outside:
                    return term, hole
            return None
    return None


def exchanged(site: Unit, other: Unit, fresh: int) -> Example:
    """Return the example of `site`, in which the unit `other` replaces `site`.

    fresh: number that is added to the nodes of `other`.
    """
    host, guest = site.example, other.example
    growth = (other.end - other.start) - (site.end - site.start)
    words = [replace(word, parent=moved(word.parent, site.end, growth)) for word in host.words]
    shift = site.start - other.start
    new = [replace(w, parent=w.parent + shift) for w in guest.words[other.start : other.end]]
    top = other.top - other.start
    kept = new[top].relation if site.top < 0 else host.words[site.top].relation
    new[top] = replace(new[top], parent=moved(site.parent, site.end, growth), relation=kept)
    nodes = [frozenset(n + fresh for n in one) for one in guest.nodes[other.start : other.end]]
    term = renumbered(other.term, other.hole, fresh)
    if site.hole:
        term = substituted(term, HOLE, site.hole)
    return Example(
        [*words[: site.start], *new, *words[site.end :]],
        [*host.nodes[: site.start], *nodes, *host.nodes[site.end :]],
        substituted(host.program, site.term, term),
    )


def moved(position: int, end: int, growth: int) -> int:
    return position + growth if position >= end else position


def renumbered(term: Term, hole: Term | None, fresh: int) -> Term:
    """Return a term with new nodes, in which HOLE replaces the hole."""
    if term is hole:
        return HOLE
    arguments = tuple(renumbered(one, hole, fresh) for one in term.arguments)
    return replace(term, arguments=arguments, nodes=frozenset(n + fresh for n in term.nodes))


def substituted(term: Term, old: Term, new: Term) -> Term:
    """Return a term in which `new` replaces the subterm `old`."""
    if term is old:
        return new
    return replace(term, arguments=tuple(substituted(one, old, new) for one in term.arguments))
