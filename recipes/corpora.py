"""Corpora for the recipes: fetched, unpacked, counted.

    python recipes/corpora.py fetch FOLDER SOURCES.tsv    # downloads what is missing; checksums
    python recipes/corpora.py unpack ARCHIVE FOLDER [NAME ...]  # all of a .tgz or .zip, or these
    python recipes/corpora.py take FOLDER NAME OUT        # NAME, plain or packed; checked
    python recipes/corpora.py join OUT PART [PART ...]    # several files after each other
    python recipes/corpora.py expect FILE LINES [PERCENT] # else an error

SOURCES.tsv: name, bytes (-: not known, 1 GiB at most), sha256 (text:...: of what is packed) and
address of a file, separated by tabs.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from archives import unpack
from downloads import fetch

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import count_lines, read_lines

PACKED = ("", ".gz", ".xz", ".zst")


def find(folder: str, name: str) -> str:
    found = [f"{folder}/{name}{end}" for end in PACKED if os.path.exists(f"{folder}/{name}{end}")]
    if not found:
        raise InputError(f"{folder}/{name}: no such file, nor {name}.gz, .xz or .zst")
    return found[0]


def take(folder: str, name: str, out: str) -> None:
    copy_lines(out, [find(folder, name)])


def copy_lines(out: str, parts: list[str]) -> None:
    """Checked to be UTF-8, with plain line ends."""
    with written_whole(out) as file:
        for part in parts:
            for line in read_lines(part):
                file.write(line.replace("\r", " ") + "\n")


def expect(path: str, lines: int, percent: float) -> None:
    found = count_lines(path)
    if abs(found - lines) > lines * percent / 100:
        about = f"about {lines:,} (± {percent:g} %)" if percent else f"{lines:,}"
        raise InputError(
            f"{path}: {found:,} sentences, expected {about}: another release, or incomplete? To go "
            "on with it all the same: --any-size"
        )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)

    def step(name: str, action) -> argparse.ArgumentParser:
        made = steps.add_parser(name)
        made.set_defaults(action=action)
        return made

    fetching = step("fetch", lambda o: fetch(Path(o.folder), o.sources))
    fetching.add_argument("folder")
    fetching.add_argument("sources")
    unpacking = step("unpack", lambda o: unpack(o.archive, Path(o.folder), o.names))
    unpacking.add_argument("archive")
    unpacking.add_argument("folder")
    unpacking.add_argument("names", nargs="*")
    taking = step("take", lambda o: take(o.folder, o.name, o.out))
    for argument in ("folder", "name", "out"):
        taking.add_argument(argument)
    joining = step("join", lambda o: copy_lines(o.out, o.parts))
    joining.add_argument("out")
    joining.add_argument("parts", nargs="+")
    expecting = step("expect", lambda o: expect(o.file, o.lines, o.percent))
    expecting.add_argument("file")
    expecting.add_argument("lines", type=int)
    expecting.add_argument("percent", type=float, nargs="?", default=0)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    options.action(options)


if __name__ == "__main__":
    command_line.run(main)
