r"""Make files of probing tasks from a corpus with trees, or check such files.

    posattn-probe-tasks en_ewt-ud-*.conllu --out tasks --seed 1
    posattn-probe-tasks --check tasks

The corpus is a treebank, or what posattn-parse wrote. Nine tasks follow the rules of Conneau et al.
2018, and TopRelations asks for the relations below the root. Accuracies on files made here are
never comparable with published ones. Sentences of tasks that change words or their order must be
parsed anew; for the others, the trees of the corpus are written beside the tasks.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser, not_negative, positive
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.progress import say
from fairseq_posattn.lab.probing.making.settings import Settings
from fairseq_posattn.lab.probing.tasks import task_called
from fairseq_posattn.text.parsing.options import add_several_roots


def parse_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = command_parser("posattn-probe-tasks", __doc__)
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
    plain = Settings()
    add(
        "--seed",
        type=not_negative,
        default=plain.seed,
        help="draw the sentences by chance with this seed (default: %(default)s)",
    )
    add(
        "--min-sentences",
        type=positive,
        default=plain.least,
        metavar="N",
        help="refuse a task with fewer than N sentences (default: %(default)s)",
    )
    add(
        "--sizes",
        type=positive,
        nargs=3,
        default=plain.sizes,
        metavar=("TRAIN", "DEV", "TEST"),
        help="take at most so many sentences for a task (default: 100000 10000 10000)",
    )
    add(
        "--shares",
        type=positive,
        nargs=3,
        default=plain.shares,
        metavar=("TRAIN", "DEV", "TEST"),
        help="divide the sentences of a smaller task in this ratio (default: 70 15 15)",
    )
    add(
        "--content-rank",
        type=positive,
        default=plain.content_rank,
        metavar="N",
        help="take words of this rank in the corpus or a later one for WC (default: %(default)s)",
    )
    add(
        "--content-words",
        type=positive,
        default=plain.content_words,
        metavar="N",
        help="let WC ask for N words (default: %(default)s)",
    )
    add(
        "--form-counts",
        type=positive,
        nargs=2,
        default=plain.form_counts,
        metavar=("LOW", "HIGH"),
        help="Tense, SubjNum and ObjNum: leave out verbs and nouns with fewer than LOW sentences, "
        "and take at most HIGH of each (default: 2 100)",
    )
    add(
        "--odd-counts",
        type=positive,
        nargs=2,
        default=plain.odd_counts,
        metavar=("LOW", "HIGH"),
        help="SOMO: replace words that occur LOW to HIGH times by others that do (default: 40 400)",
    )
    add(
        "--parsed",
        action="store_true",
        help="note that the trees of the corpus come from a parser, and not from people",
    )
    add_several_roots(parser)
    return parser.parse_args()


def settings_of(options: argparse.Namespace) -> Settings:
    """Return how the tasks are made."""
    for name in ("form_counts", "odd_counts"):
        low, high = getattr(options, name)
        if low > high:
            raise InputError(f"--{name.replace('_', '-')} {low} {high}: LOW must not exceed HIGH")
    return Settings(
        seed=options.seed,
        sizes=options.sizes,
        shares=options.shares,
        least=options.min_sentences,
        content_rank=options.content_rank,
        content_words=options.content_words,
        form_counts=options.form_counts,
        odd_counts=options.odd_counts,
    )


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
        settings_of(options),
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
