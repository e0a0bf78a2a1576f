"""Inspect the Python environment that runs this program, for set_up in common.sh.

lacking [EXTRA ...]   prints the requirements of pyproject.toml that the environment does not meet
pins [EXTRA ...]      prints constraints.txt without the packages that are there and good enough
linked                succeeds if Python finds the package of this checkout
sweep                 deletes the records of installations that were interrupted
"""

import argparse
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tomllib
from pathlib import Path

try:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
except ImportError:
    from pip._vendor.packaging.requirements import Requirement
    from pip._vendor.packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parent.parent


def declared(extras: list[str]) -> list[Requirement]:
    """Return the requirements of this package and of the extras that apply to this Python."""
    with open(CHECKOUT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    optional = project["optional-dependencies"]
    own = "fairseq-posattn"
    lines, found = project["dependencies"] + [f"{own}[{','.join(extras)}]"], []
    for requirement in map(Requirement, lines):
        if canonicalize_name(requirement.name) == own:  # an extra that includes others
            lines += [line for extra in sorted(requirement.extras) for line in optional[extra]]
        elif requirement.marker is None or requirement.marker.evaluate():
            found.append(requirement)
    return found


def installed() -> dict[str, str]:
    """Return the version of each installed package."""
    return {
        canonicalize_name(found.metadata["Name"]): found.version
        for found in reversed(list(importlib.metadata.distributions()))
        if found.metadata["Name"]
    }


def lacking(extras: list[str]) -> list[str]:
    """Return the requirements that the environment does not meet."""
    present = installed()
    return [
        str(requirement)
        for requirement in declared(extras)
        if (version := present.get(canonicalize_name(requirement.name))) is None
        or not requirement.specifier.contains(version, prereleases=True)
    ]


def pins(extras: list[str]) -> list[str]:
    """Return the lines of constraints.txt for packages that are missing or too old."""
    wanting = {canonicalize_name(Requirement(line).name) for line in lacking(extras)}
    keep = installed().keys() - wanting
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [
        line
        for line in lines
        if line and line[0] != "#" and canonicalize_name(Requirement(line).name) not in keep
    ]


def linked() -> bool:
    """Return whether Python finds the package of this checkout."""
    # Python searches the folder of this file first, not the current folder.
    found = importlib.util.find_spec("fairseq_posattn")
    return bool(found and found.origin) and Path(found.origin).resolve().is_relative_to(CHECKOUT)


def sweep() -> None:
    """Delete the records of interrupted installations, because pip takes a package without RECORD
    for installed."""
    for folder in filter(os.path.isdir, sys.path):
        if Path(folder).is_relative_to(sys.prefix):
            for record in Path(folder).glob("*.dist-info"):
                if not (record / "RECORD").exists():
                    shutil.rmtree(record)


def main() -> int:
    """Run one command, and return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "command", choices=["lacking", "pins", "linked", "sweep"], help="run this one command"
    )
    parser.add_argument(
        "extras", nargs="*", metavar="EXTRA", help="include these extras of pyproject.toml"
    )
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
