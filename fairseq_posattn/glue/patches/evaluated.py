"""Read the options that fairseq evaluates as Python, such as --adam-betas, without running code.

They stand on the command line, in recipes and in checkpoints, of which each may come from a
stranger. Beside literals, fairseq's own architectures have sums and multiples of lists, as in
`[(512, 3)] * 20`.
"""

from __future__ import annotations

import ast
import operator
import sys
from typing import Any

from fairseq_posattn.errors import InputError

LONGEST = 10_000  # characters of a text, and entries of a list


def install() -> None:
    """Give fairseq's modules a function in place of Python's `eval`."""
    for name, module in list(sys.modules.items()):
        specification = getattr(module, "__spec__", None)  # python -m fairseq_cli.x is __main__
        name = specification.name if specification else name
        if name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            vars(module)["eval"] = read_value


def read_value(text: object) -> Any:
    """Return the value that a text writes down; refuse a text that does more."""
    if not isinstance(text, str):
        raise TypeError("eval() arg 1 must be a string")  # fairseq goes on where eval says so
    try:
        if len(text) > LONGEST:
            raise ValueError("too long")
        return value_of(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise InputError(
            f"'{text[:40]}' is the value of an option that fairseq evaluates as Python; give a "
            "number, a list or another literal, such as (0.9, 0.98)"
        ) from None


def value_of(part: ast.expr) -> Any:
    """Return the value of a literal, or of a sum or a multiple of lists."""
    if not isinstance(part, ast.BinOp):
        return ast.literal_eval(part)
    left, right = value_of(part.left), value_of(part.right)
    if isinstance(left, list) and isinstance(part.op, ast.Add):
        size, join = len(left) + len(right), operator.add
    elif isinstance(left, list) and isinstance(part.op, ast.Mult):
        size, join = len(left) * right, operator.mul
    else:
        raise ValueError("no list")
    if size > LONGEST:
        raise ValueError("too long")
    return join(left, right)
