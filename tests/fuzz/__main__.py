"""python -m tests.fuzz: a table of classes, inputs and failures."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from .registry import InputClass, all_classes, inputs_of
from .runner import Failure, Fuzzed


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000, help="of all classes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="parts of names")
    parser.add_argument("--input", type=int, help="this one alone, which stays in its folder")
    parser.add_argument("--show", type=int, default=5, help="failures of each class (default: 5)")
    return parser.parse_args()


def failures_of(kind: InputClass, folder: Path, seed: int, numbers: Iterable[int]) -> list[Failure]:
    """What went wrong in a class; if its undamaged input is refused, nothing else is tried."""
    try:
        fuzzed = Fuzzed(kind, folder, seed)
    except AssertionError as error:
        return [Failure(-1, "nothing", str(error))]
    return [failure for number in numbers if (failure := fuzzed.failure(number))]


def main() -> None:
    options = parse_options()
    chosen = {
        name: kind
        for name, kind in all_classes().items()
        if not options.only or any(part in name for part in options.only)
    }
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    print(f"{folder}: seed {options.seed}", file=sys.stderr)
    failures = 0
    print(f"{'class':<40} {'inputs':>7} {'failures':>9} {'seconds':>8}")
    for name, count in inputs_of(chosen, options.inputs).items():
        numbers = [options.input] if options.input is not None else range(count)
        began = time.monotonic()
        found = failures_of(chosen[name], folder / re.sub(r"\W+", "_", name), options.seed, numbers)
        seconds = time.monotonic() - began
        print(f"{name:<40} {len(numbers):>7} {len(found):>9} {seconds:>8.0f}", flush=True)
        for failure in found[: options.show]:
            print(f"  {failure.number} ({failure.damage}): {failure.reason}", flush=True)
        failures += len(found)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
