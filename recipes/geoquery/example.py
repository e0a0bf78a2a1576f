"""An example of GeoQuery: a question with its tree, and a program aligned with its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from constituency import Word, depth
from funql import NOTATIONS, Term, Token, normalized

DEEPEST = 6  # one label for all programs of at least this depth


@dataclass(frozen=True)
class Example:
    """A question with its tree, and its program.

    nodes: for each word, the nodes of the program that it expresses.
    """

    words: list[Word]
    nodes: list[frozenset[int]]
    program: Term

    @property
    def text(self) -> str:
        return " ".join(word.form for word in self.words)

    def parts(self, notation: str, chain: bool = False) -> list[str]:
        """Return the text of the example for each output file.

        chain: write a chain instead of the tree.
        """
        parents = range(len(self.words)) if chain else [word.parent + 1 for word in self.words]
        rows = [
            f"{k}\t{w.form}\t_\t{w.tag}\t_\t_\t{parent}\t{w.relation}\t_\t_"
            for k, (w, parent) in enumerate(zip(self.words, parents, strict=True), start=1)
        ]
        conllu = "\n".join([f"# text = {self.text}", *rows])
        tokens = NOTATIONS[notation](self.program)
        program = " ".join(name for name, _ in tokens)
        pairs = " ".join(f"{word}-{at}" for word, at in self.aligned(tokens))
        deep = normalized(self.program).depth
        label = f"{deep}" if deep < DEEPEST else f"{DEEPEST}+"
        return [
            *(f"{conllu}\n\n", f"{self.text}\n", f"{program}\n"),
            *(f"{pairs}\n", f"depth {label}\n"),
        ]

    def aligned(self, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
        """Yield pairs of a word and a token of the program.

        A name is aligned with the word that expresses its node and is highest in the tree (of
        several, the last one). A name that no word expresses, such as `intersection`, is aligned
        with the word of the next name.
        """
        waiting: list[int] = []
        for at, (name, nodes) in enumerate(tokens):
            if name in ("(", ")", ","):
                continue
            waiting.append(at)
            if there := [k for k, own in enumerate(self.nodes) if own & nodes]:
                word = min(there, key=lambda k: (depth(self.words, k), -k))
                yield from ((word, token) for token in waiting)
                waiting = []
