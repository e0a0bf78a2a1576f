"""Say what a recipe.toml may choose: it may come from a stranger, and must do no harm by itself.

Names become parts of paths, so they are plain. Options write nothing outside the folder of a run,
and run no code: fairseq evaluates the text of some options as Python, such as that of adam-betas,
and others of its architectures do so with any option, so a translation recipe has our models.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import Limit, is_of, limit

NAME = re.compile(r"(?!.*\.\.)[\w+][\w.+-]*")
PLAIN = "a plain name: letters, digits and . _ + -"
OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
NOT_TRAINING = (  # these write elsewhere or send away what is computed, or run code
    *("user-dir", "post-save-script", "plasma-path", "use-plasma-view"),
    *("save-dir", "checkpoint-suffix", "tensorboard-logdir", "log-file"),
    *("aim-repo", "azureml-logging", "wandb-project", "distributed-init-method"),
)
OUR_OWN = ("arch", "task")  # the recipes of translations have them of the engine
SPECIFICATIONS = (  # our parser reads these, and they look like calls
    *("encoder-attention", "decoder-attention", "cross-attention"),
    *("encoder-positions", "decoder-positions"),
)
LONGEST = 10_000  # characters of a value
HARMLESS = (  # what literals and plain words consist of, as Python reads them
    *(ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Load),
    *(ast.UnaryOp, ast.USub, ast.UAdd, ast.BinOp, ast.Add, ast.Sub, ast.Div, ast.BitOr),
    *(ast.Name, ast.Attribute),
)
NOT_PREPARE = (
    *("out", "work", "source", "target", "train", "valid", "test", "plan"),
    *("treebank", "target-treebank", "target-comment", "align-by"),
    *("control", "control-seed", "flip", "download"),
    *("executor", "partition", "time", "setup", "sbatch"),
)
NOT_SCORE = ("json", "train-counts")


def is_plain(name: object) -> bool:
    """Return whether a name can be a part of a path without leading elsewhere."""
    return isinstance(name, str) and bool(NAME.fullmatch(name))


def are_plain(names: Iterable[object]) -> bool:
    return all(map(is_plain, names))


def plain() -> Mapping[str, Any]:
    """Return the metadata of a field that is a plain name, or has plain names only."""
    return limit(lambda value: are_plain([value] if isinstance(value, str) else value), PLAIN)


def plain_or_empty() -> Mapping[str, Any]:
    """Return the metadata of a field that is a plain name, or empty."""
    return limit(lambda name: not name or is_plain(name), PLAIN)


def is_value(value: object) -> bool:
    """Return whether a value of TOML can be passed on; dates cannot."""
    if isinstance(value, dict):
        return all(map(is_value, value.values()))
    if isinstance(value, list):
        return all(map(is_value, value))
    return isinstance(value, (bool, int, float)) or is_of(str, value)


Value = Annotated[Any, Limit(is_value, "text, a number, true, false or a list")]
Options = dict[str, Value]  # names without the dashes, and values


def check_options(where: str, options: Options, refused: Sequence[str]) -> None:
    """Refuse options that a recipe may not choose, and values that would be options or code."""
    for name, value in options.items():
        if not OPTION.fullmatch(name):
            raise InputError(f"{where} has '{name}', expected the name of an option without dashes")
        # a program may take the beginning of an option for the whole
        if any(other.startswith(name.replace("_", "-")) for other in refused):
            raise InputError(
                f"{where}.{name}: no recipe may choose where programs write and what code they "
                "run, but only the user who starts it"
            )
        for text in map(str, value if isinstance(value, list) else [value]):
            code = name.replace("_", "-") not in SPECIFICATIONS and is_code(text)
            if re.match(r"\s*-[^\d.]", text) or code:
                raise InputError(
                    f"{where}.{name} has '{text[:40]}', which is an option or code; give a value"
                )


def is_code(text: str) -> bool:
    """Return whether a text, evaluated as Python, does more than to write down a value or a path,
    which may look like names and quotients."""
    if len(text) > LONGEST:
        return True
    try:
        parts = ast.walk(ast.parse(text.strip(), mode="eval"))
        return not all(isinstance(part, HARMLESS) for part in parts)
    except (SyntaxError, ValueError):
        return False  # so it cannot be evaluated
    except (RecursionError, MemoryError):
        return True
