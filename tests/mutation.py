"""Measure which faults the tests detect: change the package at random places and run the tests.

    pip install cosmic-ray
    python tests/mutation.py --seed 1 --faults 40 --work FOLDER [--all]

Each fault is a change by one of cosmic-ray's operators, in a clone of the checkout in FOLDER; the
packages take turns. The tests of the changed module's package run first, then all, until one fails.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "fairseq_posattn"
LIMIT = 40 * 60  # seconds; tests that take longer have found the fault


def faults_in(modules: list[Path], dice: random.Random) -> Iterator[tuple[Path, str]]:
    """Yield modules at random, each with its text after one change."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.mutating import mutate_code

    operators = [cosmic_ray.plugins.get_operator(n) for n in cosmic_ray.plugins.operator_names()]
    while True:
        path, operator = dice.choice(modules), dice.choice(operators)
        if operator.arguments():
            continue
        nodes = ast_nodes(get_ast_from_path(path))
        places = sum(1 for node in nodes for _ in operator().mutation_positions(node))
        if places:
            source = path.read_bytes()
            changed = mutate_code(source, operator(), dice.randrange(places))
            text = changed.decode() if isinstance(changed, bytes) else changed
            if text and without_annotations(text) not in ("", without_annotations(source.decode())):
                yield path, text


def without_annotations(source: str) -> str:
    """Return the syntax tree of a module without its annotations, or "" for invalid Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
    return ast.dump(tree)


def first_failure(checkout: Path, package: str, options: list[str]) -> str | None:
    """Return the first test that fails, of the package or of all."""
    first = [f"tests/{package}"] if (checkout / "tests" / package).exists() else []
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-rfE"]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    try:
        ended = subprocess.run(
            [*command, "--keep-duplicates", *first, "tests", *options],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return "the time limit"
    lines = ended.stdout.splitlines()
    named = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (named or lines[-1:])[0] if ended.returncode else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="of the choice of faults")
    parser.add_argument("--faults", type=int, default=40, help="how many faults are tried")
    parser.add_argument("--work", type=Path, required=True, help="folder for the clone")
    parser.add_argument("--all", action="store_true", help="run the long tests, too")
    options = parser.parse_args()
    checkout = options.work / "main"
    subprocess.check_call(["git", "clone", "--quiet", Path(__file__).parents[1], checkout])
    packages: dict[str, list[Path]] = {}
    for path in sorted((checkout / PACKAGE).glob("*/**/*.py")):
        packages.setdefault(path.relative_to(checkout / PACKAGE).parts[0], []).append(path)
    dice = random.Random(options.seed)
    streams = {name: faults_in(modules, dice) for name, modules in packages.items()}
    for number in range(options.faults):
        package = list(streams)[number % len(streams)]
        path, changed = next(streams[package])
        source = path.read_text("utf-8")
        lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm="")
        print(f"{number} {path.relative_to(checkout)}", *list(lines)[2:], sep="\n")
        path.write_text(changed, "utf-8")
        print(first_failure(checkout, package, ["--all"] * options.all) or "NOT FOUND", flush=True)
        path.write_text(source, "utf-8")


if __name__ == "__main__":
    main()
