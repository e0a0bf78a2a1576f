"""Fetch, unpack and count the corpora of the recipes.

    python recipes/corpora.py fetch FOLDER SOURCES.tsv      # downloads and checks missing files
    python recipes/corpora.py unpack ARCHIVE FOLDER [NAME ...]  # unpacks all of it, or these names
    python recipes/corpora.py take FOLDER NAME OUT          # copies NAME, plain or compressed
    python recipes/corpora.py join OUT PART [PART ...]      # writes several files after each other
    python recipes/corpora.py expect FILE LINES [PERCENT]   # fails if FILE has not so many lines

SOURCES.tsv has for each file its name, number of bytes (-: unknown, 1 GiB at most), sha256
(text:... is that of the unpacked text) and address, separated by tabs.
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
    """Return the path of a file, plain or compressed."""
    found = [f"{folder}/{name}{end}" for end in PACKED if os.path.exists(f"{folder}/{name}{end}")]
    if not found:
        raise InputError(
            f"{folder}/{name}: there is no such file, nor {name}.gz, .xz or .zst; name another "
            "folder"
        )
    return found[0]


def take(folder: str, name: str, out: str) -> None:
    """Copy a file of a folder, plain or compressed, as plain text."""
    copy_lines(out, [find(folder, name)])


def copy_lines(out: str, parts: list[str]) -> None:
    """Write the lines of all parts as UTF-8 with plain line ends."""
    with written_whole(out) as file:
        for part in parts:
            for line in read_lines(part):
                file.write(line.replace("\r", " ") + "\n")


def expect(path: str, lines: int, percent: float) -> None:
    """Refuse a file that has not so many lines, give or take some percent."""
    found = count_lines(path)
    if abs(found - lines) > lines * percent / 100:
        about = f"about {lines:,} (± {percent:g} %)" if percent else f"{lines:,}"
        raise InputError(
            f"{path}: there are {found:,} sentences, expected {about}; get the right release, or "
            "go on with this one: --any-size"
        )


def parse_options() -> argparse.Namespace:
    """Return the step of the command line with its options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)

    def step(name: str, action, what: str) -> argparse.ArgumentParser:
        made = steps.add_parser(name, help=what, description=what)
        made.set_defaults(action=action)
        return made

    fetching = step(
        "fetch",
        lambda o: fetch(Path(o.folder), o.sources),
        "download the files of a table that are not there yet",
    )
    fetching.add_argument("folder", help="write the files to this folder")
    fetching.add_argument("sources", help="read the table of files from here (.tsv)")
    unpacking = step(
        "unpack",
        lambda o: unpack(o.archive, Path(o.folder), o.names),
        "unpack an archive, or some of its files",
    )
    unpacking.add_argument("archive", help="unpack this archive (.tar, .tgz or .zip)")
    unpacking.add_argument("folder", help="write the files to this folder")
    unpacking.add_argument("names", nargs="*", help="unpack only the files of these names")
    taking = step(
        "take",
        lambda o: take(o.folder, o.name, o.out),
        "copy a file that may be compressed as plain text",
    )
    taking.add_argument("folder", help="look for the file in this folder")
    taking.add_argument("name", help="give the name of the file without .gz, .xz or .zst")
    taking.add_argument("out", help="write the plain text to this file")
    joining = step(
        "join", lambda o: copy_lines(o.out, o.parts), "write several files after each other"
    )
    joining.add_argument("out", help="write the lines to this file")
    joining.add_argument("parts", nargs="+", help="read the lines of these files")
    expecting = step(
        "expect",
        lambda o: expect(o.file, o.lines, o.percent),
        "fail if a file has not so many lines",
    )
    expecting.add_argument("file", help="count the lines of this file")
    expecting.add_argument("lines", type=int, help="expect this number of lines")
    expecting.add_argument(
        "percent", type=float, nargs="?", default=0, help="allow a difference of so many percent"
    )
    return parser.parse_args()


def main() -> None:
    """Run the step that the command line names."""
    options = parse_options()
    options.action(options)


if __name__ == "__main__":
    command_line.run(main)
