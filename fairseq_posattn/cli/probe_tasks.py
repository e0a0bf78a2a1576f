r"""Make files of probing tasks from a corpus with trees, or check such files.

    posattn probe-tasks en_ewt-ud-*.conllu --out tasks --seed 1
    posattn probe-tasks --check tasks

The corpus is a treebank, or what posattn parse wrote. Nine tasks follow the rules of Conneau et al.
2018, and TopRelations asks for the relations below the root. Accuracies on files made here are
never comparable with published ones. Sentences of tasks that change words or their order must be
parsed anew; for the others, the trees of the corpus are written beside the tasks.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import add_fields, command_parser
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.progress import say
from fairseq_posattn.lab.probing.making.settings import Settings
from fairseq_posattn.lab.probing.tasks import task_called
from fairseq_posattn.text.parsing.options import add_several_roots


def parse_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = command_parser("posattn probe-tasks", __doc__)
    add = parser.add_argument
    add(
        "corpora",
        nargs="*",
        metavar="CONLLU",
        help="make tasks from these CoNLL-U files, which need parts of speech and features; .gz, "
        ".xz and .zst are read",
    )
    add("--out", type=Path, metavar="FOLDER", help="write the tasks to this folder")
    add("--overwrite", action="store_true", help="replace the folder if it exists")
    add("--check", type=Path, metavar="FOLDER", help="check this folder of tasks, and make none")
    add(
        "--task",
        nargs="+",
        metavar="NAME",
        help="make or check only these tasks, which must not be refused then (default: all)",
    )
    add_fields(parser, Settings)
    add(
        "--parsed",
        action="store_true",
        help="note that the trees of the corpus come from a parser, and not from people",
    )
    add_several_roots(parser)
    return parser.parse_args()


def main() -> None:
    """Make or check the tasks that the command line names."""
    options = parse_options()
    if options.check:
        check(options)
        return
    if not options.corpora or not options.out:
        raise InputError("name CoNLL-U files and --out FOLDER, or a folder with --check")
    from fairseq_posattn.lab.probing.making.make import make, show
    from fairseq_posattn.lab.probing.making.rules import RULES

    tasks = [task_called(name) for name in options.task or RULES]
    for task in tasks:
        if task.name not in RULES:
            raise InputError(f"{task.name} cannot be made from dependency trees; leave it out")
    made = make(
        options.corpora,
        options.out,
        tasks,
        Settings(**{field.name: getattr(options, field.name) for field in fields(Settings)}),
        parsed=options.parsed,
        several_roots=options.several_roots,
        overwrite=options.overwrite,
        named=bool(options.task),
    )
    show(made)


def check(options: argparse.Namespace) -> None:
    """Check a folder of tasks; faults make the command fail."""
    from fairseq_posattn.lab.probing.check import check_folder

    if options.corpora or options.out:
        raise InputError("--check makes no tasks; leave out the CoNLL-U files and --out")
    faults = check_folder(options.check, options.task, say)
    if faults:
        raise InputError(f"{options.check}: {faults} fault(s) were found; see above")


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
