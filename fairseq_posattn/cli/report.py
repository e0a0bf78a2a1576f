"""Write an HTML report that compares systems, from the JSON files of posattn score.

posattn report SYSTEM.json ... --out report.html
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.lock import locked
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab import lab_extra
from fairseq_posattn.lab.report.systems import TITLE, read_systems


def main() -> None:
    parser = command_parser("posattn report", __doc__)
    parser.add_argument(
        "systems",
        nargs="+",
        metavar="JSON",
        help="files written by posattn score --json, one per system",
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="write the report to this file (.html)"
    )
    parser.add_argument(
        "--probes",
        nargs="+",
        metavar="JSON",
        help="add the results from these files, which posattn probe --json has written",
    )
    parser.add_argument("--title", default=TITLE, help="title of the report (default: %(default)s)")
    options = parser.parse_args()
    with lab_extra("the report needs"):
        from fairseq_posattn.lab.report.report import page
    extra = []
    with locked(options.out):
        if options.probes:
            from fairseq_posattn.lab.probing.report import section
            from fairseq_posattn.lab.probing.results import read_probes

            extra.append(section([read_probes(path) for path in options.probes], options.probes))
        text = page(read_systems(options.systems), visible(options.title), extra)
        with written_whole(options.out) as file:
            file.write(text)


command = partial(run, main)
if __name__ == "__main__":
    command()
