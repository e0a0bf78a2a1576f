"""Draw the pictures of docs/mechanisms.md again, with the commands that stand above them there.

python docs/pictures.py
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from unittest import mock

from fairseq_posattn.cli import show
from fairseq_posattn.files.command_line import run

DOCS = Path(__file__).resolve().parent
COMMAND = re.compile(r"^`posattn show (.+)`:\n\n!\[.+\]\((pictures/\w+\.png)\)$", re.MULTILINE)


def main() -> None:
    text = (DOCS / "mechanisms.md").read_text(encoding="utf-8")
    for command, picture in COMMAND.findall(text):
        arguments = [*shlex.split(command), "--out", str(DOCS / picture)]
        with mock.patch.object(sys, "argv", ["posattn show", *arguments]):
            show.main()


if __name__ == "__main__":
    run(main)
