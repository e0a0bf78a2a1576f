"""Report which options are invalid where fairseq fails with an assertion or a Python exception.

Option values that would make fairseq fail later are rejected at the start. For other errors, the
statement that raised the error determines which options are reported: those that its condition
reads, and those that its message mentions.

Options that fairseq passes to `eval`, such as --adam-betas, are parsed without executing code,
because checkpoints and recipes may not be trustworthy. Besides literals, sums and multiples of
lists are supported, because fairseq's own architectures contain them, such as `[(512, 3)] * 20`.
"""

import ast
import linecache
import math
import operator
import os
import re
import sys
import traceback
from argparse import Action, ArgumentParser
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fairseq
from omegaconf.errors import MissingMandatoryValue

from fairseq_posattn.errors import InputError

PACKAGES = Path(fairseq.__file__).parents[1]
INSTALLED = (f"{PACKAGES}{os.sep}", os.path.dirname(os.__file__), "<")
ROOTS = [f"{Path(__file__).parents[2]}{os.sep}"]  # the files of this package, and of fairseq
ROOTS += [f"{PACKAGES / name}{os.sep}" for name in ("fairseq", "fairseq_cli")]
ADAPTIVE, CUTOFF = "adaptive_loss", "--adaptive-softmax-cutoff"
FLAG = re.compile(r"--[a-z][\w-]*")
NOT_ZERO = {"beam", "nbest", "buffer_size", "update_freq", "checkpoint_shard_count"}
NOT_ZERO |= {"required_batch_size_multiple", "log_interval", "save_interval", "validate_interval"}
NAMED_OTHERWISE = {  # variables of fairseq's search -> the options that set them
    "--len-penalty": ("--lenpen",),
    "--max-len": ("--max-len-a", "--max-len-b", "--prefix-size"),
}
LARGEST, MOST = 2**63 - 1, {"num_workers": 1024, "seed": 2**32 - 1}  # a worker is a process
LARGEST_FLOAT, SMALLEST = 1e30, 1e-30  # float32 can represent sums of such values


def options_fit(parse_args_and_arch, parser: ArgumentParser, *rest, **how):
    """Wrapper for options.parse_args_and_arch that rejects values that would cause errors later.

    It also resets --tpu, which fairseq sets with --bf16.
    """
    found = parse_args_and_arch(parser, *rest, **how)
    chosen: Any = found[0] if isinstance(found, tuple) else found  # parse_known: (args, unknown)
    if getattr(chosen, "bf16", False) and find_spec("torch_xla") is None:
        chosen.tpu = False
    args = vars(chosen)
    refuse_combinations(args)
    given = given_flags()
    for action in parser._actions:  # argparse has no public list of options
        value: Any = None if given.isdisjoint(action.option_strings) else args.get(action.dest)
        if value == [] and action.nargs is None:  # --name=--
            raise InputError(f"{action.option_strings[0]}: expected a value, found '--'")
        for number in value if isinstance(value, list) else [value]:
            if type(number) in (int, float) and (expected := expected_of(action, number)):
                raise InputError(f"{action.option_strings[0]}: expected {expected}, found {number}")
    return found


def given_flags() -> set[str]:
    return {argument.partition("=")[0] for argument in sys.argv}


def expected_of(action: Action, number: float) -> str | None:
    """Return a description of the numbers that an option accepts, or None if `number` is valid."""
    if isinstance(number, float):
        if not math.isfinite(number):
            return "a finite number"
        if action.dest == "temperature" and 0 < number < SMALLEST:
            return f"at least {SMALLEST}"
        fits = abs(number) <= LARGEST_FLOAT
        return None if fits else f"a number from {-LARGEST_FLOAT} to {LARGEST_FLOAT}"
    most = MOST.get(action.dest, LARGEST)
    if number > most:
        return f"at most {most}"
    if action.dest in NOT_ZERO and number < 1:
        return "a number above 0"
    off = isinstance(action.default, int) and action.default < 0  # a negative value turns it off
    return "a number that is not negative" if number < 0 and not off else None


def refuse_combinations(args: Mapping[str, Any]) -> None:
    """Raise an InputError for combinations of options that would cause errors later."""
    if args.get("int8") and (args.get("fp16") or args.get("bf16")):
        raise InputError("--int8 cannot be combined with --fp16 or --bf16; use only one of them")
    if args.get("constraints") and "buffer_size" not in args:  # not interactive
        raise InputError(
            "--constraints are read from lines of new text only; translate with posattn "
            "interactive, or omit --constraints"
        )
    if args.get("sampling") and args["nbest"] != args["beam"]:
        raise rejected("--sampling requires --nbest to be equal to --beam")
    if "buffer_size" in args and (args["batch_size"] or 1) > max(1, args["buffer_size"]):
        raise rejected("--batch-size cannot be larger than --buffer-size")
    if CUTOFF in given_flags() and args.get("criterion", ADAPTIVE) != ADAPTIVE:
        raise InputError(
            f"{CUTOFF} needs --criterion {ADAPTIVE}, found {args['criterion']}; change one of the "
            "two options"
        )
    overrides = args.get("model_overrides", "{}")
    try:
        fits = isinstance(ast.literal_eval(overrides), dict)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        fits = False
    if not fits:
        raise InputError(
            f"--model-overrides {overrides}: expected a dictionary, such as {{'dropout': 0.1}}"
        )


def rejected(reason: str) -> InputError:
    """Return an error that names the given options that a reason mentions."""
    given = ", ".join(options_given(set(FLAG.findall(reason))))
    return InputError(f"{reason}; change or leave out {given}")


def refusal(error: BaseException) -> str | None:
    """Return an explanation if the error means that fairseq rejected an option, and None otherwise.

    This is assumed if the error was raised by a `raise` statement of fairseq, or by any
    statement of fairseq that reads or mentions an option given on the command line.
    """
    if isinstance(error, MissingMandatoryValue):
        return f"--{str(error.key).replace('_', '-')} is missing; add it"
    frames = traceback.walk_tb(error.__traceback__)
    places = [(frame.f_code.co_filename, number) for frame, number in frames]
    last = {
        root: k for k, (file, _) in enumerate(places) for root in ROOTS if file.startswith(root)
    }
    ours, theirs = last.get(ROOTS[0], -1), max(map(last.get, ROOTS[1:], (-1, -1)))
    if theirs < 0 or ours > theirs:
        return None
    if not all(file.startswith(INSTALLED) for file, _ in places[theirs + 1 :]):
        return None  # the user's own code failed
    file, number = places[theirs]
    way = statements(ast.parse("".join(linecache.getlines(file))), number)
    if not way:  # the source code is not available
        return None
    on_purpose = theirs == len(places) - 1 and isinstance(way[-1], ast.Assert | ast.Raise)
    said = str(error) if on_purpose else f"{type(error).__name__}: {error}"
    if isinstance(way[-1], ast.Assert) and not re.search("[a-z]{3}", said):  # such as "" or "5 < 5"
        said = f"fairseq needs {ast.unparse(way[-1].test)}{said and f' ({said})'}"
    given = options_given({*FLAG.findall(said), *flags_read(way)})
    if given:
        return f"{said}; change or leave out {', '.join(given)}"
    return said or None if on_purpose and isinstance(way[-1], ast.Raise) else None


def statements(tree: ast.AST, number: int) -> list[ast.stmt]:
    """Return the statements that contain a line of a file, starting with the outermost."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= number <= (node.end_lineno or 0)
    ]


def flags_read(way: list[ast.stmt]) -> Iterator[str]:
    """Yield the flags whose values may be read by the innermost statement or its nearest `if`."""
    conditions = [one.test for one in way if isinstance(one, ast.If)]
    read: list[ast.AST] = [*conditions[-1:]]
    read += [way[-1]] if not hasattr(way[-1], "body") else []
    nodes = [node for part in read for node in ast.walk(part)]
    methods = [node.func for node in nodes if isinstance(node, ast.Call)]
    for node in nodes:
        name = getattr(node, "attr", getattr(node, "id", None))
        if isinstance(name, str) and node not in methods:
            yield f"--{name.replace('_', '-')}"


def options_given(flags: set[str]) -> list[str]:
    """Return the flags that occur on the command line, each with its last value."""
    found = {}
    flags |= {flag for name in flags for flag in NAMED_OTHERWISE.get(name, ())}
    for argument, after in zip(sys.argv, [*sys.argv[1:], "--"], strict=True):
        flag, _, value = argument.partition("=")
        if flag.replace("_", "-") in flags:
            found[flag] = argument if value or after.startswith("--") else f"{flag} {after}"
    return list(found.values())


LONGEST = 10_000  # the maximal number of characters of a value, and of items of a list


def replace_eval() -> None:
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
            "not a literal; give a number or a tuple, such as (0.9, 0.98)"
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
