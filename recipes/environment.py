"""Looks at the Python environment that runs it, for set_up in common.sh.

lacking [EXTRA ...]   prints the requirements of setup.py that it does not meet
pins [EXTRA ...]      prints constraints.txt without the packages that it has and that meet setup.py
linked                succeeds if this checkout's package is the one that Python finds
sweep                 deletes the records of installations that were interrupted
"""

import argparse
import ast
import importlib.metadata
import importlib.util
import os
import shutil
import sys
from pathlib import Path

try:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parent.parent


def declared(extras: list[str]) -> list[Requirement]:
    """The requirements in setup.py, and those of the extras, that apply to this Python."""
    literals = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse((CHECKOUT / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    lines = literals["REQUIREMENTS"] + [
        line for extra in extras for line in literals["EXTRAS"][extra]
    ]
    return [r for r in map(Requirement, lines) if r.marker is None or r.marker.evaluate()]


def installed() -> dict[str, str]:
    return {
        canonicalize_name(found.metadata["Name"]): found.version
        for found in reversed(list(importlib.metadata.distributions()))
        if found.metadata["Name"]
    }


def lacking(extras: list[str]) -> list[str]:
    present = installed()
    return [
        str(requirement)
        for requirement in declared(extras)
        if (version := present.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(version, prereleases=True)
    ]


def pins(extras: list[str]) -> list[str]:
    wanting = {canonicalize_name(Requirement(line).name) for line in lacking(extras)}
    keep = installed().keys() - wanting
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [
        line
        for line in lines
        if line and line[0] != "#" and canonicalize_name(Requirement(line).name) not in keep
    ]


def linked() -> bool:
    # Python puts the folder of this file, not the current one, in front of the search path.
    found = importlib.util.find_spec("fairseq_posattn")
    return bool(found and found.origin) and Path(found.origin).resolve().is_relative_to(CHECKOUT)


def sweep() -> None:
    """pip writes RECORD last, and takes a package without it for installed."""
    for folder in filter(os.path.isdir, sys.path):
        if Path(folder).is_relative_to(sys.prefix):
            for record in Path(folder).glob("*.dist-info"):
                if not (record / "RECORD").exists():
                    shutil.rmtree(record)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["lacking", "pins", "linked", "sweep"])
    parser.add_argument("extras", nargs="*", metavar="EXTRA")
    options = parser.parse_args()
    if options.command == "linked":
        return 0 if linked() else 1
    if options.command == "sweep":
        sweep()
        return 0
    print(*(lacking if options.command == "lacking" else pins)(options.extras), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
