"""Read FunQL programs of GeoQuery, and write them in one of two notations.

`funql` is the normal form of Shaw et al. 2021, with one token for each name, bracket and comma:

    city(loc_2(X))            intersection ( city , loc_2 ( X ) )
    city(all)                 city
    most(state(loc_1(X)))     most ( state , loc_1 , X )
    largest_one(area_1(X))    largest_one ( area_1 , X )

`prefix` consists of the names of the original program without brackets, such as `city loc_2 X`.
Each name has a fixed number of arguments, so both notations determine the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from fairseq_posattn.errors import InputError

KINDS = ("capital", "city", "lake", "major", "mountain", "place", "river", "state")
TOGETHER = {"largest_one": 2, "smallest_one": 2, "most": 3, "fewest": 3}  # with nested names
ENTITIES = ("cityid", "stateid", "riverid", "placeid", "countryid")
ALL, ANY = "all", "_"  # a name without a node of its own; an unknown state
NAME = re.compile(r"\s*('[^']*'|[^\s(),']+)\s*")
END = re.compile(r"\s*\)\s*")

Token = tuple[str, frozenset[int]]  # a name with its nodes, or a bracket


@dataclass(frozen=True)
class Term:
    """A function of FunQL with its arguments.

    nodes: numbers of the nodes of the corpus to which the name belongs, or no nodes for a name that
        the normal form adds. kind: what the term describes, such as State.
    """

    name: str
    arguments: tuple[Term, ...] = ()
    nodes: frozenset[int] = frozenset()
    kind: str = ""

    @property
    def parts(self) -> Iterator[Term]:
        """Yield this term and those in it, in the order of the text."""
        yield self
        for argument in self.arguments:
            yield from argument.parts

    @property
    def is_complete(self) -> bool:
        """Whether each name in TOGETHER still contains the nested names that belong to it."""
        for term in self.parts:
            for _ in range(TOGETHER.get(term.name, 1) - 1):
                if len(term.arguments) != 1:
                    return False
                [term] = term.arguments
        return True

    @property
    def depth(self) -> int:
        """The nesting depth of brackets."""
        return max((1 + argument.depth for argument in self.arguments), default=0)


def read(program: str, nodes: Iterator[tuple[int, str]]) -> Term:
    """Parse a program; an entity becomes one name without quotes, such as stateid(ohio).

    nodes: node and kind of each name of the program, except for `all` and `_`.
    """
    term, end = read_term(program, 0, nodes)
    if end < len(program):
        raise InputError(f"'{program[end:]}' follows the end of the program")
    if next(nodes, None) is not None:
        raise InputError("mrl-parse contains more names than the program")
    return term


def read_term(text: str, at: int, nodes: Iterator[tuple[int, str]]) -> tuple[Term, int]:
    """Parse the term that starts at character `at`; return it with its end (exclusive)."""
    if (found := NAME.match(text, at)) is None:
        raise InputError(f"the program '{text}' has no name at character {at + 1}")
    name, at = found[1].strip("' "), found.end()
    node = None if name in (ALL, ANY) else next(nodes, None)
    if node is None and name not in (ALL, ANY):
        raise InputError(f"mrl-parse does not contain the name '{name}' of the program")
    own, kind = (frozenset([node[0]]), node[1]) if node else (frozenset(), "")
    arguments = []
    while text[at : at + 1] == ("," if arguments else "("):
        argument, at = read_term(text, at + 1, nodes)
        arguments.append(argument)
    if arguments:
        if (end := END.match(text, at)) is None:
            raise InputError(f"the program '{text}' has no ')' at character {at + 1}")
        at = end.end()
    if name in ENTITIES:
        inside = ",".join(argument.name for argument in arguments)
        own = own.union(*(argument.nodes for argument in arguments))
        return Term(f"{name}({inside})", nodes=own, kind=kind), at
    if len(arguments) == 1 and arguments[0].name == ALL:
        arguments = [replace(arguments[0], nodes=own)]
    return Term(name, tuple(arguments), own, kind), at


def renamed(term: Term, names: Mapping[str, str]) -> Term:
    """Return a term in which some names are replaced."""
    arguments = tuple(renamed(argument, names) for argument in term.arguments)
    return replace(term, name=names.get(term.name, term.name), arguments=arguments)


def normalized(term: Term) -> Term:
    """Return a program in the normal form of Shaw et al."""
    if term.name in KINDS:
        [argument] = term.arguments
        kind = replace(term, arguments=())
        both = (kind, normalized(argument))
        return kind if argument.name == ALL else Term("intersection", both, kind=term.kind)
    outer, inner = [], term
    for _ in range(TOGETHER.get(term.name, 1) - 1):
        [inner] = inner.arguments
        outer.append(replace(inner, arguments=()))
    arguments = (*outer, *(normalized(argument) for argument in inner.arguments))
    return replace(term, arguments=arguments)


def bracketed(term: Term) -> Iterator[Token]:
    """Yield the tokens of a normalized program."""
    yield term.name, term.nodes
    for mark, argument in zip("(,,", term.arguments, strict=False):
        yield mark, frozenset()
        yield from bracketed(argument)
    if term.arguments:
        yield ")", frozenset()


NOTATIONS: dict[str, Callable[[Term], list[Token]]] = {
    "funql": lambda term: list(bracketed(normalized(term))),
    "prefix": lambda term: [(part.name, part.nodes) for part in term.parts],
}
