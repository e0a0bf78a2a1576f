"""Parse options that fairseq passes to `eval`, such as --adam-betas, without executing code.

Option values come from the command line, from recipes and from checkpoints, which may not be
trustworthy. Besides literals, sums and multiples of lists are supported, because fairseq's own
architectures contain them, for example `[(512, 3)] * 20`.
"""

from __future__ import annotations

import ast
import operator
import sys
from typing import Any

from fairseq_posattn.errors import InputError

LONGEST = 10_000  # the maximal number of characters of a value, and of items of a list


def install() -> None:
    """Replace Python's `eval` with `read_value` in all fairseq modules."""
    for name, module in list(sys.modules.items()):
        specification = getattr(module, "__spec__", None)  # python -m fairseq_cli.x is __main__
        name = specification.name if specification else name
        if name.partition(".")[0] in ("fairseq", "fairseq_cli"):
            vars(module)["eval"] = read_value


def read_value(text: object) -> Any:
    """Return the value of a literal; raise an InputError for any other expression."""
    if not isinstance(text, str):
        raise TypeError("eval() arg 1 must be a string")  # fairseq catches this error of eval
    try:
        if len(text) > LONGEST:
            raise ValueError("too long")
        return value_of(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise InputError(
            f"'{text[:40]}' is the value of an option that fairseq evaluates as Python, but it is "
            "not a literal; give a number or a list, such as (0.9, 0.98)"
        ) from None


def value_of(part: ast.expr) -> Any:
    """Evaluate a literal, or a sum or multiple of lists."""
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
