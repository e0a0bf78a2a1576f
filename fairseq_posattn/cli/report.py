"""Write one page of HTML that compares systems, from the JSON of posattn-score.

posattn-report SYSTEM.json ... --out report.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_posattn.evaluation.report.report import TITLE, page
from fairseq_posattn.evaluation.report.systems import read_systems
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.visible import visible


def parse_options() -> argparse.Namespace:
    parser = command_parser("posattn-report", __doc__)
    parser.add_argument("systems", nargs="+", metavar="JSON", help="written by posattn-score")
    parser.add_argument("--out", type=Path, required=True, help="the page to write (.html)")
    parser.add_argument("--title", default=TITLE)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    text = page(read_systems(options.systems), visible(options.title))
    with written_whole(options.out) as file:
        file.write(text)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
