"""Refuses to go on with what was made from other options or other files.

    python recipes/made_from.py RECORD --made PATH ... [--options NAME=VALUE ...] \\
        [--files NAME=FILE ...] [--remedy TEXT] [--part]

RECORD is a JSON file which keeps the options, and the sizes and checksums of the files, that the
paths of --made were made from. It is written while there is nothing at these paths. Afterwards, the
same options and files end with exit code 0; others end with an error that names the differences.
With --part the record has more options and files, which are not compared, and is not written.
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

LONGEST_VALUE = 60  # of an option, in a message
MOST_DIFFERENCES = 3  # in a message

Origin = dict[str, dict]  # "options": name -> value; "files": name -> size and checksum


def holds_something(path: Path, record: Path) -> bool:
    """Whether a file or a folder with files is there; the record itself does not count."""
    if path.is_dir():
        return any(inside != record for inside in path.iterdir())
    return path.exists()


def differences(before: Origin, now: Origin) -> Iterator[str]:
    for kind in ("options", "files"):
        old, new = before.get(kind, {}), now[kind]
        for name in [*old, *(name for name in new if name not in old)]:
            if old.get(name) == new.get(name):
                continue
            if kind == "options":
                was, now_is = from_first_difference(old.get(name), new.get(name))
                yield f"{name} was {was}, is now {now_is}"
            else:
                yield f"the file '{name}' was another one"


def from_first_difference(old: str | None, new: str | None) -> tuple[str, str]:
    """Two values for a message, long ones without the words that both begin with."""
    old_words, new_words = (old or "").split(" "), (new or "").split(" ")
    pairs = zip(old_words, new_words, strict=False)
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if max(len(old or ""), len(new or "")) > LONGEST_VALUE and same:
        old_words, new_words = (["...", *words[same:]] for words in (old_words, new_words))
    return shown(old, old_words), shown(new, new_words)


def shown(value: str | None, words: list[str]) -> str:
    text = " ".join(words)
    cut = f"{text[:LONGEST_VALUE]}..." if len(text) > LONGEST_VALUE else text
    return f"'{cut}'" if value else "not given"


def common(before: dict, now: dict) -> dict:
    return {name: value for name, value in before.items() if name in now}


def check(record: Path, made: list[Path], now: Origin, remedy: str, part: bool = False) -> None:
    """Write the record, or compare with it. Another process may do the same at this moment: the
    record is written before anything is made, so the order of these two looks matters."""
    there = [path for path in made if holds_something(path, record)]
    if not there or not record.exists():
        if there:
            raise InputError(f"{there[0]}: nothing says what it was made from; {remedy}")
        if not part:
            with written_whole(record) as file:
                json.dump(now, file, indent=1)
        return
    before = read_json(record, remedy)
    if not isinstance(before, dict) or not all(isinstance(b, dict) for b in before.values()):
        raise InputError(f"{record}: damaged; {remedy}")
    if part:
        before = {kind: common(before.get(kind, {}), now[kind]) for kind in now}
    found = list(differences(before, now))
    if found:
        more = f", and {len(found) - MOST_DIFFERENCES} more" * (len(found) > MOST_DIFFERENCES)
        listed = "; ".join(found[:MOST_DIFFERENCES]) + more
        raise InputError(f"{there[0]}: was made from something else: {listed}; {remedy}")


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: NAME=VALUE is expected")
    return name, value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("record", type=Path)
    parser.add_argument("--made", type=Path, nargs="+", required=True, metavar="PATH")
    parser.add_argument("--options", type=pair, nargs="*", default=[], metavar="NAME=VALUE")
    parser.add_argument("--files", type=pair, nargs="*", default=[], metavar="NAME=FILE")
    parser.add_argument("--remedy", default="name another folder with --work")
    parser.add_argument("--part", action="store_true")
    arguments = parser.parse_args()
    now = {
        "options": dict(arguments.options),
        "files": {name: fingerprint(path) for name, path in arguments.files},
    }
    remedy = f"{arguments.remedy}, or remove this one"
    check(arguments.record, arguments.made, now, remedy, arguments.part)


if __name__ == "__main__":
    command_line.run(main)
