"""Convert a line of Python to a dependency tree over its tokens.

The tree is that of Python's module ast. Each node of the syntax is represented by one token, its
head: of the tokens that belong to none of its children, the first that is not in PASSED_OVER or,
failing that, the first. The head is a child of the head of the enclosing node; its label is the
field that contains the node (`func`, `args`, `value`). The node's other tokens are children of its
head, and labelled by their kind (`name`, `op`, `number`, `string`). A node without a token of its
own, such as an expression statement, is represented by the head of its first child.

Lines such as `else :` are extended to a statement; the added tokens are removed from the tree, and
their children become children of the nearest ancestor that remains. String literals are split into
words and punctuation marks, each of which is a child of the one before it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from fairseq_posattn.trees.sentence import Sentence, Tags

WORDS = re.compile(r"\w+|[^\w\s]")
PASSED_OVER = {*"()[]{},:;\"'"}  # these are heads only if there is nothing else
LAYOUT = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
COMPLETIONS = (  # what precedes and follows the line
    ("", ""),
    ("", " pass"),  # if, for, while, with, def, class
    ("if 1: pass\n", " pass"),  # elif, else
    ("try: pass\n", " pass"),  # except, finally
    ("", " pass\nfinally: pass"),  # try
    ("", "\ndef f(): pass"),  # a decorator
)
POSITIONED = (ast.stmt, ast.expr, ast.excepthandler, ast.arg, ast.keyword, ast.alias, ast.pattern)
Position = tuple[int, int]  # line, counted from 1, and byte


@dataclass(frozen=True)
class Token:
    text: str
    kind: str
    begin: Position
    end: Position


def words_of(text: str) -> list[str]:
    """Split a text into words and punctuation marks."""
    return WORDS.findall(text)


def tree_of(line: str) -> Sentence | None:
    """Return the tokens of a line of Python with their tree, or None if it cannot be parsed."""
    for before, after in COMPLETIONS:
        source = f"{before}{line}{after}\n"
        try:
            with warnings.catch_warnings(action="ignore"):  # about escape sequences
                module = ast.parse(source)
        except (SyntaxError, ValueError):
            continue
        tokens = list(tokens_of(source))
        row = before.count("\n") + 1
        end = (row, len(line.encode()))
        inside = [k for k, t in enumerate(tokens) if t.begin[0] == row and t.begin < end]
        return Conversion(tokens, module).sentence(inside)
    return None


def tokens_of(source: str) -> Iterator[Token]:
    """Yield the tokens of a program; the parts of a string have the position of the string."""
    lines = source.split("\n")

    def in_bytes(at: Position) -> Position:
        return at[0], len(lines[at[0] - 1][: at[1]].encode())

    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            kind = tokenize.tok_name[token.type]
            parts = words_of(token.string) if token.type == tokenize.STRING else [token.string]
            for part in parts:
                yield Token(part, kind, in_bytes(token.start), in_bytes(token.end))


class Conversion:
    """Converts the syntax tree of a program to parents and labels of its tokens."""

    def __init__(self, tokens: list[Token], module: ast.Module):
        self.tokens = tokens
        self.parents: dict[int, int] = {}
        self.labels = [token.kind.lower() for token in tokens]
        self.tags = [token.kind for token in tokens]
        self.free = set(range(len(tokens)))  # tokens that belong to no node yet
        self.root = self.head_of(module)
        for token in self.free - {self.root}:  # such as @
            self.parents[token] = self.root

    def head_of(self, node: ast.AST) -> int | None:
        """Attach the tokens of a node, and return its head; None if it has no tokens."""
        heads = [(field, self.head_of(child)) for field, child in children_of(node)]
        found = [(field, head) for field, head in heads if head is not None]
        own = sorted(filter(partial(self.is_in, node), self.free))
        if own:
            head = next((k for k in own if self.tokens[k].text not in PASSED_OVER), own[0])
            self.tags[head] = type(node).__name__
            self.free.difference_update(own)
            self.parents |= {k: self.above_in(own, k, head) for k in own if k != head}
        elif found:
            head = found.pop(0)[1]
        else:
            return None
        for field, child in found:
            self.parents[child], self.labels[child] = head, field
        return head

    def above_in(self, own: list[int], token: int, head: int) -> int:
        """Return the parent of a token of a node: in strings the token before it, else the head."""
        in_string = token > head and self.tokens[token].kind == "STRING"
        return token - 1 if in_string and token - 1 in own else head

    def is_in(self, node: ast.AST, token: int) -> bool:
        if not isinstance(node, POSITIONED):
            return False
        begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return begin <= self.tokens[token].begin and self.tokens[token].end <= end

    def sentence(self, inside: list[int]) -> Sentence:
        """Return the tree of these tokens; the first token without a parent becomes the root."""
        index = {k: number for number, k in enumerate(inside, start=1)}
        above = [self.above(k, index) for k in inside]
        root = above.index(0) + 1
        parents = [p or (0 if k == root else root) for k, p in enumerate(above, start=1)]
        labels = [self.labels[k] if p else "root" for k, p in zip(inside, parents, strict=True)]
        tags = [Tags(upos=self.tags[k]) for k in inside]
        return Sentence([self.tokens[k].text for k in inside], parents, relations=labels, tags=tags)

    def above(self, token: int, index: dict[int, int]) -> int:
        """Return the number of the nearest ancestor in `index`, or 0."""
        while token in self.parents:
            token = self.parents[token]
            if token in index:
                return index[token]
        return 0


def children_of(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield field and node of each child; a node without a position is replaced by its children."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, POSITIONED):
                yield field, child
            elif isinstance(child, ast.AST):
                yield from children_of(child)
