r"""Probe what the encoder of trained models knows about sentences.

    posattn-probe data --path base=base.pt shan=shan.pt --tasks tasks --json probes.json
    posattn-probe data --path shan=shan.pt --heads train.conllu dev.conllu test.conllu --json h.json
    posattn-probe --table probes --results probes.json others.json

The files of the tasks are those of SentEval, or those that posattn-probe-tasks makes. Sentences are
segmented and parsed as the training data were (prepare.json). A sentence whose words were changed
is parsed as it is now. Beside each model, the same model untrained is probed with the same trees:
only what is above it was learnt.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import (
    add_model_options,
    command_parser,
    not_negative,
    positive,
)
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.lock import locked


def options_parser() -> argparse.ArgumentParser:
    """Return what reads the options of the command line."""
    parser = command_parser("posattn-probe", __doc__)
    add_probed(parser.add_argument)
    add_classifiers(parser.add_argument)
    add_heads(parser.add_argument)
    add_work(parser.add_argument)
    add_model_options(parser)
    return parser


def add_probed(add: Callable) -> None:
    """Add the options that say which vectors are probed, and with which sentences and trees."""
    add("data", nargs="?", metavar="DATA", help="segment sentences as these binarised data")
    add(
        "--path",
        nargs="+",
        default=[],
        metavar="NAME=PT",
        help="probe the model of each checkpoint; checkpoints with the same name are runs of a "
        "system (without NAME=, the name is that of the folder, or of the file where one folder "
        "has several)",
    )
    add(
        "--vectors",
        nargs="+",
        default=[],
        metavar="NAME=FOLDER",
        help="probe vectors of another toolkit, too: FOLDER/TASK.txt has a line of numbers for "
        "each line of the task",
    )
    add("--tasks", type=Path, metavar="FOLDER", help="read the tasks in this folder")
    add(
        "--task",
        nargs="+",
        metavar="NAME",
        help="take only these tasks of the folder (default: all)",
    )
    add(
        "--trees",
        type=Path,
        metavar="FOLDER",
        help="take the trees of TASK.txt from FOLDER/TASK.conllu, plain or packed (default: parse "
        "the sentences); tasks that change words are parsed if the folder has no trees for them",
    )
    add(
        "--trees-are",
        choices=("gold", "parsed"),
        help="say whether people or a parser made the trees of --trees (default: as tasks.json "
        "says, for the trees beside the tasks)",
    )


def add_classifiers(add: Callable) -> None:
    """Add the options that say how a sentence gets its vector, and what is trained on it."""
    add(
        "--pooling",
        choices=("mean", "max", "last", "end"),
        default="mean",
        help="make the vector of a sentence from its pieces: their mean (default) or maximum, the "
        "last piece, or the end of the sentence",
    )
    add(
        "--layer",
        type=layer,
        default="top",
        metavar="N",
        help="probe this layer, where 0 is the input of the first one; or top (default), all (one "
        "probe for each layer), or mix (the classifier learns weights of the layers)",
    )
    add(
        "--classifier",
        choices=("senteval", "mlp", "linear"),
        default="senteval",
        help="train SentEval's classifier: as its code does (default), or as its README says "
        "(mlp); or a linear one without tuning",
    )
    add(
        "--seeds",
        nargs="+",
        type=not_negative,
        default=[1111],
        metavar="N",
        help="train the classifier with each of these seeds (default: 1111)",
    )


def add_heads(add: Callable) -> None:
    """Add the options of the probes of words and attention heads."""
    add(
        "--heads",
        nargs=3,
        metavar=("TRAIN", "DEV", "TEST"),
        help="probe words and attention heads against the trees of these CoNLL-U files, and not "
        "sentences for tasks: what heads look at, structural probes (Hewitt and Manning 2019), and "
        "labels of words with a control task (Hewitt and Liang 2019)",
    )
    add(
        "--gold",
        action="store_true",
        help="--heads: let models read the trees of these files (default: parse their sentences)",
    )
    add(
        "--rank",
        type=positive,
        default=0,
        metavar="N",
        help="--heads: map vectors to N dimensions in structural probes (default: their width)",
    )
    add(
        "--first",
        type=positive,
        default=0,
        metavar="N",
        help="--heads: read only the first N sentences of each file",
    )


def add_work(add: Callable) -> None:
    """Add the options that say how the work is done, and where its results are."""
    add("--no-untrained", action="store_true", help="leave out the untrained models")
    add("--json", type=Path, help="write all accuracies to this file")
    add(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="keep vectors and parsed sentences in this folder (default: that of --json and .work)",
    )
    add(
        "--workers",
        type=positive,
        default=1,
        metavar="N",
        help="parse with N processes at once (default: %(default)s)",
    )
    add(
        "--results",
        nargs="+",
        default=[],
        metavar="JSON",
        help="show the accuracies in these files as well",
    )
    add("--table", metavar="START", help="write the tables to START.md, START.csv and START.tex")
    add(
        "--fairseq-task",
        metavar="TASK",
        help="load the model with this task of fairseq (default: that of its training)",
    )
    add(
        "--bpe",
        metavar="FILE",
        help="segment words with these codes of subword-nmt, or with this .model of sentencepiece, "
        "if posattn-prepare did not make DATA (default: as in the training)",
    )
    add(
        "--moses",
        metavar="LANGUAGE",
        help="split the text with Moses before that, as text of LANGUAGE (default: as in the "
        "training)",
    )


def layer(text: str) -> str:
    """Read the number of a layer, top, all or mix."""
    if text not in ("top", "all", "mix") and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number, top, all or mix, found '{text}'")
    return text


def main() -> None:
    """Probe the models that the command line names, and print the tables."""
    parser = options_parser()
    options = parser.parse_args()
    refuse_incomplete(options, vars(parser.parse_args([])))
    from fairseq_posattn.io.files import write_json
    from fairseq_posattn.io.records import as_document
    from fairseq_posattn.lab.probing.results import read_probes
    from fairseq_posattn.lab.probing.tables import Results, all_tables
    from fairseq_posattn.lab.scoring.plain_tables import markdown, write

    others, paths = [read_probes(path) for path in options.results], [*options.results]
    if options.path or options.vectors:
        with locked(options.json):
            found = probed(options)
            write_json(options.json, as_document(found), indent=1)
        others, paths = [found, *others], [str(options.json), *paths]
    tables = all_tables(Results(others, paths))
    print("\n".join(markdown(tables)))
    if options.table:
        write(tables, Path(options.table))


def refuse_incomplete(options: argparse.Namespace, defaults: dict[str, Any]) -> None:
    """Refuse a command line that lacks what it needs, or has what would have no effect."""
    if not (options.path or options.vectors or options.results):
        raise InputError("name models with --path, vectors with --vectors, or --results to show")
    if (options.path or options.vectors) and not (
        (options.tasks or options.heads) and options.json
    ):
        raise InputError("probing needs --tasks FOLDER or --heads, and --json FILE")
    if options.path and not options.data:
        raise InputError("name the data with which the models were trained before --path")
    if options.heads and (options.tasks or options.vectors or options.trees):
        raise InputError("--heads takes no --tasks, --trees and --vectors; start both apart")
    if options.heads and options.layer == "mix":
        raise InputError("--heads has no --layer mix; choose a number, top or all")
    only = {
        "--heads": ("gold", "rank", "first"),
        "--tasks": ("task", "trees", "trees_are", "pooling", "classifier"),
        "--tasks or --heads": (
            *("json", "work", "workers", "no_untrained", "layer", "seeds", "bpe", "moses"),
        ),
    }
    of_heads, of_tasks = options.heads, options.tasks
    chosen = {"--heads": of_heads, "--tasks": of_tasks, "--tasks or --heads": of_heads or of_tasks}
    for kind, names in only.items():
        for name in names if not chosen[kind] else ():
            if getattr(options, name) != defaults[name]:
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} acts with {kind} only; leave it out")
    if options.trees_are and not options.trees:
        raise InputError("--trees-are says what the trees of --trees are; name their folder")


def probed(options: argparse.Namespace):
    """Return what the probes find: those of words and heads, or those of sentences."""
    from fairseq_posattn.lab.probing.encoding import Codecs
    from fairseq_posattn.lab.probing.probe import Probing, named
    from fairseq_posattn.lab.probing.treebank import TreebankProbing

    shared: dict[str, Any] = {
        "data": options.data,
        "models": named(options.path),
        "work": options.work or options.json.with_suffix(".work"),
        "layer": options.layer,
        "seeds": options.seeds,
        "untrained": not options.no_untrained,
        "workers": options.workers,
        "user_dir": options.user_dir,
        "task": options.fairseq_task,
        "codecs": Codecs(options.bpe, options.moses),
        "cpu": options.cpu,
    }
    if options.heads:
        return TreebankProbing(
            **shared,
            files=options.heads,
            gold=options.gold,
            rank=options.rank,
            first=options.first,
        ).run()
    return Probing(
        **shared,
        tasks=options.tasks,
        names=options.task,
        vectors=named(options.vectors),
        trees=options.trees,
        trees_are=options.trees_are,
        pooling=options.pooling,
        classifier=options.classifier,
    ).run()


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
