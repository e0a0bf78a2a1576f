"""The weights of the project: `python tests/reach.py` prints them; test_reach.py holds limits."""

import ast
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


def weights() -> dict[str, int]:
    modules, tests = files(MODULES), files("tests/**/*.py", "tests/**/*.sh")
    return {
        "lines of the package": sum(part.lines for part in modules),
        "files of the package": len(modules),
        "lines of the longest function": max(functions()).lines,
        f"files over {LONGEST_FILE} lines": sum(part.lines > LONGEST_FILE for part in modules),
        "lines of the tests": sum(part.lines for part in tests),
        "words of the documents": sum(
            len((ROOT / name).read_text("utf-8").split()) for _, name in files(*DOCUMENTS)
        ),
        "names at the top of the package": len([*PACKAGE.glob("[a-z]*")]),
    }


if __name__ == "__main__":
    for name, weight in weights().items():
        print(f"{name:<32} {weight:>7,}")
    for lines, name in too_long():
        print(f"over the limit: {lines} lines, {name}")
