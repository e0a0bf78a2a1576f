"""Measures what the tests find: faults are put into the package by chance, and the tests run.

    pip install cosmic-ray
    python tests/mutation.py choose --seed 1 --faults 40 --out faults.json
    python tests/mutation.py try faults.json --work FOLDER [--all] [--processes 2]

`choose` takes places of the package by chance, each room in its turn, and at each place one of
cosmic-ray's operators. `try` runs the default suite over each fault, in a copy of the checkout,
until a test fails; the tests of the fault's room come first. With --all it runs all tests over the
faults that the default suite did not find. What it finds stands in faults.json.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fairseq_posattn"
ELSEWHERE = {"cli": ("lab/scoring",), "testing": ("core",), "__init__": ("core",)}
LIMIT = 40 * 60  # seconds; tests that take longer have found the fault


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    choosing = commands.add_parser("choose", help="choose faults by chance")
    choosing.add_argument("--seed", type=int, required=True, help="of the choice")
    choosing.add_argument("--faults", type=int, default=40, help="how many faults are chosen")
    choosing.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    choosing.set_defaults(call=choose)
    trying = commands.add_parser("try", help="run the tests over chosen faults")
    trying.add_argument("faults", type=Path, help="the JSON file of `choose`")
    trying.add_argument("--work", type=Path, required=True, help="for copies of the checkout")
    trying.add_argument("--all", action="store_true", help="run the long tests over what is left")
    trying.add_argument("--processes", type=int, default=2, help="faults that are tried at once")
    trying.set_defaults(call=try_all)
    options = parser.parse_args()
    options.call(options)


def choose(options: argparse.Namespace) -> None:
    """Write the chosen faults, each with the changed module and the difference."""
    dice = random.Random(options.seed)
    rooms: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        rooms.setdefault(path.relative_to(PACKAGE).parts[0], []).append(path)
    streams = [faults_of(modules, dice) for modules in rooms.values()]
    chosen: list[dict] = []
    while len(chosen) < options.faults:
        dice.shuffle(streams)
        found = [fault for stream in streams if (fault := next(stream, None))]
        if not found:
            sys.exit(f"--faults {options.faults}: there are only {len(chosen)}")
        chosen += found
    for number, fault in enumerate(chosen[: options.faults]):
        fault["number"] = number
    options.out.write_text(json.dumps(chosen[: options.faults], indent=1, ensure_ascii=False))


def faults_of(modules: list[Path], dice: random.Random) -> Iterator[dict]:
    """Yield faults of some modules: a place by chance, and there an operator by chance."""
    places: dict[tuple, list] = {}
    for path in modules:
        for position, operator, occurrence in mutations_of(path):
            places.setdefault((str(path), position), []).append((operator, occurrence))
    order = list(places)
    dice.shuffle(order)
    for path, position in order:
        operator, occurrence = dice.choice(places[path, position])
        fault = fault_at(Path(path), operator, occurrence)
        if fault:
            yield fault


def mutations_of(path: Path) -> Iterator[tuple]:
    """Yield place, operator and number of everything that cosmic-ray would change in a module."""
    import cosmic_ray.plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    nodes = list(ast_nodes(get_ast_from_path(path)))
    for name in sorted(cosmic_ray.plugins.operator_names()):
        operator = cosmic_ray.plugins.get_operator(name)
        if not operator.arguments():
            found = (place for node in nodes for place in operator().mutation_positions(node))
            for occurrence, (start, _) in enumerate(found):
                yield start, name, occurrence


def fault_at(path: Path, name: str, occurrence: int) -> dict | None:
    """Return a fault, or None if it changes annotations only or makes no valid Python."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    source = path.read_text(encoding="utf-8")
    changed = mutate_code(source.encode(), cosmic_ray.plugins.get_operator(name)(), occurrence)
    changed = changed.decode() if isinstance(changed, bytes) else changed
    if changed is None or without_annotations(changed) in (None, without_annotations(source)):
        return None
    lines = (source.splitlines(), changed.splitlines())
    difference = [line for line in difflib.unified_diff(*lines, n=0, lineterm="")][2:]
    where = str(path.relative_to(ROOT))
    return {"path": where, "operator": name, "difference": difference, "changed": changed}


def without_annotations(source: str) -> str | None:
    """Return the syntax tree of a module without its annotations, or None for invalid Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(tree)


def try_all(options: argparse.Namespace) -> None:
    """Try all faults that were not tried yet, and write after each what is known.

    A fault that somebody has `set aside` in the file, because nobody can observe it, is not tried.
    """
    faults = json.loads(options.faults.read_text())
    key = "all" if options.all else "default"
    passed_over = ("set aside", key)
    open_ones = [
        fault
        for fault in faults
        if not any(map(fault.get, passed_over)) and not fault.get("default", {}).get("found")
    ]
    copies = [copy_of_the_checkout(options.work, k) for k in range(options.processes)]
    with ThreadPoolExecutor(options.processes) as pool:
        for fault in pool.map(lambda fault: tried(fault, copies, key), open_ones):
            print(fault["number"], fault["path"], fault[key], flush=True)
            options.faults.write_text(json.dumps(faults, indent=1, ensure_ascii=False))
    found = sum(fault[key]["found"] for fault in open_ones)
    print(f"{found} of {len(open_ones)} found")


def copy_of_the_checkout(work: Path, number: int) -> Path:
    """Return a fresh copy of what git knows of the checkout."""
    copy = work / str(number) / "main"
    shutil.rmtree(copy, ignore_errors=True)
    copy.parent.mkdir(parents=True, exist_ok=True)
    subprocess.check_call(["git", "clone", "--quiet", ROOT, copy])
    shared = copy.parent / "shared"
    if not shared.exists() and (ROOT.parent / "shared").exists():
        shared.symlink_to(ROOT.parent / "shared")
    return copy


def tried(fault: dict, copies: list[Path], key: str) -> dict:
    """Run the tests over one fault, in one of the copies."""
    copy = copies.pop()
    module = copy / fault["path"]
    whole = module.read_text(encoding="utf-8")
    module.write_text(fault["changed"], encoding="utf-8")
    start = time.monotonic()
    try:
        failed = first_failure(copy, fault["path"], ["--all"] if key == "all" else [])
    finally:
        module.write_text(whole, encoding="utf-8")
        copies.append(copy)
    seconds = round(time.monotonic() - start)
    fault[key] = {"found": failed is not None, "by": failed, "seconds": seconds}
    return fault


def importing(copy: Path, path: str) -> list[str]:
    """Return the test files that name a module of the package."""
    module = Path(path).with_suffix("")
    name = ".".join(module.parts).removesuffix(".__init__")
    forms = (name, f"{'.'.join(module.parts[:-1])} import {module.name}")
    found = [
        file
        for file in sorted((copy / "tests").rglob("test_*.py"))
        if any(form in file.read_text(encoding="utf-8") for form in forms)
    ]
    return [] if len(found) > 20 else [str(file.relative_to(copy)) for file in found]


def first_failure(copy: Path, path: str, options: list[str]) -> str | None:
    """Return the first test that fails: of files that import the module, of its room, of all."""
    room = Path(path).parts[1].removesuffix(".py")
    of_room = [f"tests/{name}" for name in (room, *ELSEWHERE.get(room, ()))]
    of_room = [name for name in of_room if (copy / name).exists()]
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-rfE"]
    command += ["--keep-duplicates", *importing(copy, path), *of_room, "tests", *options]
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return "the time limit"
    if ended.returncode == 0:
        return None
    lines = ended.stdout.splitlines()
    named = (line for line in lines if line.startswith(("FAILED", "ERROR")))
    return next(named, "\n".join(lines[-5:]))[:300]


if __name__ == "__main__":
    main()
