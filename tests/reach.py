"""Measure the size of the project; `python tests/reach.py` prints it beside the budgets.

budgets.toml contains the largest permitted sizes, which test_reach.py checks.
"""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fairseq_posattn"
MODULES, DOCUMENTS = (
    "fairseq_posattn/**/*.py",
    ("*.md", "docs/*.md", "recipes/*.md", "recipes/*/*.md"),
)
LONGEST_FILE, LONGEST_FUNCTION = 300, 60  # lines


class Part(NamedTuple):
    """A file or a function, and how many lines it has."""

    lines: int
    name: str


def files(*patterns: str) -> list[Part]:
    paths = (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))
    return [
        Part(path.read_text("utf-8").count("\n"), str(path.relative_to(ROOT))) for path in paths
    ]


def functions() -> Iterator[Part]:
    for _, name in files(MODULES):
        for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Part(node.end_lineno - node.lineno + 1, f"{name}:{node.lineno} {node.name}")


def too_long() -> list[Part]:
    """Return the files and functions of the package that are over the limits."""
    long_files = [part for part in files(MODULES) if part.lines > LONGEST_FILE]
    return long_files + [part for part in functions() if part.lines > LONGEST_FUNCTION]


def sizes() -> dict[str, int]:
    """Return the size of each package in lines, and of the whole project."""
    modules = files(MODULES)
    found: dict[str, int] = {}
    for lines, name in modules:
        part = Path(name).parts[1]
        found[part] = found.get(part, 0) + lines
    packages = {name: lines for name, lines in found.items() if not name.endswith(".py")}
    kept = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    paths = [ROOT / name for name in kept if name and (ROOT / name).is_file()]
    words = [len((ROOT / name).read_text("utf-8").split()) for _, name in files(*DOCUMENTS)]
    return packages | {
        "package": sum(part.lines for part in modules),
        "modules": len(modules),
        "tests": sum(part.lines for part in files("tests/**/*.py", "tests/**/*.sh")),
        "words": sum(words),
        "kilobytes": sum(path.stat().st_size for path in paths) // 1000,
    }


def budgets() -> dict[str, int]:
    return tomllib.loads((Path(__file__).parent / "budgets.toml").read_text("utf-8"))


if __name__ == "__main__":
    for name, size in sizes().items():
        print(f"{name:<12} {size:>7,} of {budgets().get(name, 0):>7,}")
    for lines, name in too_long():
        print(f"over the limit: {lines} lines, {name}")
