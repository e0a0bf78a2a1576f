r"""Refuse to go on with results that were made from other options or other files.

    python recipes/made_from.py RECORD --made PATH ... [--options NAME=VALUE ...] \\
        [--files NAME=FILE ...] [--remedy TEXT] [--part]

RECORD is a JSON file with the options, and the sizes and checksums of the files, from which the
paths of --made were made. It is written while there is nothing at these paths. Later, the same
options and files end with exit code 0; others end with an error that names the differences. With
--part only the options and files that are named here are compared, and RECORD is not written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.checksums import fingerprint
from fairseq_posattn.io.files import read_json

LONGEST_VALUE = 60  # characters of an option in a message
MOST_DIFFERENCES = 3  # a message names so many

Origin = dict[str, dict]  # "options": name -> value; "files": name -> size and checksum


def holds_something(path: Path, record: Path) -> bool:
    """Return whether a file, or a folder with files other than the record, is there."""
    if path.is_dir():
        return any(inside != record for inside in path.iterdir())
    return path.exists()


def differences(before: Origin, now: Origin) -> Iterator[str]:
    """Yield each difference of options and files in words."""
    for kind in ("options", "files"):
        old, new = before.get(kind, {}), now[kind]
        for name in [*old, *(name for name in new if name not in old)]:
            if old.get(name) == new.get(name):
                continue
            if kind == "options":
                was, now_is = from_first_difference(old.get(name), new.get(name))
                yield f"{name} was {was}, is now {now_is}"
            else:
                yield f"the file '{name}' has changed"


def from_first_difference(old: str | None, new: str | None) -> tuple[str, str]:
    """Return two values for a message; long ones lose the words that both begin with."""
    old_words, new_words = (old or "").split(" "), (new or "").split(" ")
    pairs = zip(old_words, new_words, strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if max(len(old or ""), len(new or "")) > LONGEST_VALUE and same:
        old_words, new_words = (["...", *words[same:]] for words in (old_words, new_words))
    return shown(old, old_words), shown(new, new_words)


def shown(value: str | None, words: list[str]) -> str:
    """Return a value for a message, cut if it is too long."""
    text = " ".join(words)
    cut = f"{text[:LONGEST_VALUE]}..." if len(text) > LONGEST_VALUE else text
    return f"'{cut}'" if value else "not given"


def common(before: dict, now: dict) -> dict:
    """Return the entries that `now` has, too."""
    return {name: value for name, value in before.items() if name in now}


def check(record: Path, made: list[Path], now: Origin, remedy: str, part: bool = False) -> None:
    """Write the record, or compare with it.

    Another process may do the same at this moment. The record is written before anything is made,
    so the paths must be looked at before the record.
    """
    there = [path for path in made if holds_something(path, record)]
    if not there or not record.exists():
        if there:
            raise InputError(f"{there[0]}: no record says what this was made from; {remedy}")
        if not part:
            with written_whole(record) as file:
                json.dump(now, file, indent=1)
        return
    before = read_json(record, remedy)
    if not isinstance(before, dict) or not all(isinstance(b, dict) for b in before.values()):
        raise InputError(f"{record}: the record is damaged; {remedy}")
    if part:
        before = {kind: common(before.get(kind, {}), now[kind]) for kind in now}
    found = list(differences(before, now))
    if found:
        more = f", and {len(found) - MOST_DIFFERENCES} more" * (len(found) > MOST_DIFFERENCES)
        listed = "; ".join(found[:MOST_DIFFERENCES]) + more
        raise InputError(f"{there[0]} was made from something else: {listed}; {remedy}")


def pair(text: str) -> tuple[str, str]:
    """Return a name and a value of the form NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found '{text}'")
    return name, value


def main() -> None:
    """Write the record or compare with it, as the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record", type=Path, help="keep the options and files in this JSON file")
    parser.add_argument(
        "--made",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help="protect the results at these paths",
    )
    parser.add_argument(
        "--options",
        type=pair,
        nargs="*",
        default=[],
        metavar="NAME=VALUE",
        help="compare these options with the record",
    )
    parser.add_argument(
        "--files",
        type=pair,
        nargs="*",
        default=[],
        metavar="NAME=FILE",
        help="compare these files with the record",
    )
    parser.add_argument(
        "--remedy",
        default="name another folder with --work",
        help="tell the user to do this (default: %(default)s)",
    )
    parser.add_argument(
        "--part",
        action="store_true",
        help="compare only what is named, and do not write the record",
    )
    arguments = parser.parse_args()
    now = {
        "options": dict(arguments.options),
        "files": {name: fingerprint(path) for name, path in arguments.files},
    }
    remedy = f"{arguments.remedy}, or remove this one"
    check(arguments.record, arguments.made, now, remedy, arguments.part)


if __name__ == "__main__":
    command_line.run(main)
