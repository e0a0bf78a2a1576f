r"""Build the data for probing tasks from a corpus with trees, or check such data.

    posattn probe-tasks en_ewt-ud-*.conllu --out tasks --seed 1
    posattn probe-tasks --check tasks

The corpus is a treebank or an output of posattn parse. Nine tasks follow the rules of Conneau et
al. (2018); the classes of the tenth, TopRelations, are the sequences of relations of the root's
children. Accuracies on these data are not comparable with published ones. For tasks that change
words or their order, the sentences must be parsed again; for the other tasks, the trees of the
corpus are written as well.
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
    parser = command_parser("posattn probe-tasks", __doc__)
    add = parser.add_argument
    add(
        "corpora",
        nargs="*",
        metavar="CONLLU",
        help="CoNLL-U files to build the tasks from, with parts of speech and features; may be "
        ".gz, .xz or .zst",
    )
    add("--out", type=Path, metavar="FOLDER", help="write the tasks to this folder")
    add("--overwrite", action="store_true", help="replace the folder if it exists")
    add("--check", type=Path, metavar="FOLDER", help="only check the tasks in this folder")
    add(
        "--task",
        nargs="+",
        metavar="NAME",
        help="build or check only these tasks, and fail if one cannot be built (default: all)",
    )
    add_fields(parser, Settings)
    add(
        "--parsed",
        action="store_true",
        help="record that the trees of the corpus were made by a parser, not by annotators",
    )
    add_several_roots(parser)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    if options.check:
        check(options)
        return
    if not options.corpora or not options.out:
        raise InputError("nothing to do; give CoNLL-U files and --out FOLDER, or --check FOLDER")
    from fairseq_posattn.lab.probing.making.make import make, show
    from fairseq_posattn.lab.probing.making.rules import RULES

    tasks = [task_called(name) for name in options.task or RULES]
    for task in tasks:
        if task.name not in RULES:
            raise InputError(f"{task.name} cannot be built from dependency trees; omit this task")
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
    """Check a task folder; raise an InputError if errors are found."""
    from fairseq_posattn.lab.probing.check import check_folder

    if options.corpora or options.out:
        raise InputError("--check builds no tasks; leave out the CoNLL-U files and --out")
    faults = check_folder(options.check, options.task, say)
    if faults:
        raise InputError(f"{options.check}: {faults} fault(s) found; they are listed above")


def command() -> None:
    run(main)


if __name__ == "__main__":
    command()
