"""Say what options the steps of posattn-recipe have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.io.argument_types import command_parser, not_negative, positive
from fairseq_posattn.lab.experiments.machine import DEFAULT_TOKENS, PRECISIONS


def parse_options(words: Sequence[str], description: str) -> argparse.Namespace:
    """Read the options of the command line; what follows `--` is kept in `rest`."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    parser = command_parser("posattn-recipe", description)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for add in (add_prepare, add_train, add_evaluate, add_table, add_sweep, add_new):
        add(steps)
    options = parser.parse_args(with_model_in_front(parser, words[:cut]))
    options.rest = words[cut + 1 :]
    if options.rest and not options.takes_rest:
        parser.error(f"nothing may follow --, but there is: {' '.join(options.rest)}")
    return options


def with_model_in_front(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Return the words of `evaluate` with its model after the recipe, wherever it stands.

    The model may be left out, so argparse does not look for it behind options.
    """
    if words[:1] != ["evaluate"] or {"-h", "--help"} & set(words):
        return words
    found, others = parser.parse_known_args(words)
    if len(others) != 1 or found.model is not None or others[0][:1] == "-":
        return words
    place = words.index(found.recipe) + 1
    rest = words[place:]
    rest.reverse()
    rest.remove(others[0])
    rest.reverse()
    return [*words[:place], others[0], *rest]


def step(steps, name: str, what: str, rest: str = "") -> argparse.ArgumentParser:
    """Add a step to the command, and return its parser."""
    end = f"; options of {rest} may follow after --" if rest else ""
    parser = steps.add_parser(name, help=what, description=what[0].upper() + what[1:] + end + ".")
    parser.set_defaults(step=name, takes_rest=bool(rest))
    return parser


def add_prepare(steps) -> None:
    """Add the step that makes data."""
    what = "turn a corpus into data for fairseq, with the trees of each control"
    parser = step(steps, "prepare", what, "posattn-prepare")
    add_place(parser)
    add = parser.add_argument
    add(
        "--from",
        dest="source",
        type=Path,
        metavar="DIR",
        help="read the corpus in DIR (default: download it, where that is allowed)",
    )
    add("--any-size", action="store_true", help="accept any number of sentences")


def add_train(steps) -> None:
    """Add the step that trains."""
    what = "train a model with one seed or several"
    parser = step(steps, "train", what, "fairseq-train")
    add_place(parser)
    add_model(parser)
    add_seeds(parser)
    add_training(parser)
    add_machine(parser)


def add_evaluate(steps) -> None:
    """Add the step that translates and scores."""
    what = "average checkpoints, translate the test sets, and score them"
    parser = step(steps, "evaluate", what, "fairseq-train that the run was trained with")
    add_place(parser)
    add_model(parser, with_run=True)
    add_seeds(parser)
    add_evaluation(parser)
    add_device(parser)
    add = parser.add_argument
    add("--updates", type=positive, help="choose the run of N updates", metavar="N")
    add(
        "--precision",
        choices=PRECISIONS,
        help="choose the run that was trained with this --precision",
    )
    add("--run", metavar="FOLDER", help="evaluate the run in this folder of WORK/runs")
    add(
        "--baseline",
        metavar="MODEL",
        help="compare with another model of this size, which was trained with the same seeds",
    )
    add(
        "--with-parsing",
        action="store_true",
        help="measure the speed with live parsing, too",
    )
    add(
        "--on-valid",
        action="store_true",
        help="evaluate on the validation set instead of the test sets",
    )


def add_table(steps) -> None:
    """Add the step that does everything."""
    what = "train and evaluate all models of the recipe, and write tables and a report"
    parser = step(steps, "table", what, "fairseq-train")
    add_place(parser)
    parser.add_argument("--size", help="take only the models of this size")
    add_corpora(parser)
    add_seeds(parser)
    add_training(parser)
    add_evaluation(parser)
    add_machine(parser)
    parser.add_argument(
        "--models", nargs="+", metavar="MODEL", help="take only these models of the recipe"
    )
    parser.add_argument(
        "--baseline",
        action="append",
        default=[],
        metavar="MODEL",
        help="compare all models with this one of their size; may be given several times "
        "(default: the first of the size among the chosen models)",
    )


def add_sweep(steps) -> None:
    """Add the step that tries the values of an option."""
    what = "train and evaluate a model with several values of an option, and draw the scores"
    parser = step(steps, "sweep", what, "fairseq-train")
    add_place(parser)
    parser.add_argument(
        "--size", help="take the models of this size (default: the first of the recipe)"
    )
    add_seeds(parser)
    add_training(parser)
    add_evaluation(parser)
    add_machine(parser)


def add_new(steps) -> None:
    """Add the step that makes a recipe."""
    parser = step(steps, "new", "write a recipe for a corpus of your own")
    add = parser.add_argument
    add("name", help="name the recipe, which becomes a folder of recipes/, or name a folder")
    add("--source", required=True, help="translate from this language, in which file names end")
    add("--target", required=True, help="translate into this language, in which file names end")
    add(
        "--from",
        dest="corpus",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the folder has train, valid and test (or test1, test2 and so on) in both languages, "
        "such as train.en, plain or compressed",
    )


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the options that every step has."""
    add = parser.add_argument
    add("recipe", help="name the recipe, or a folder with a recipe.toml")
    add("--work", type=Path, help="write all files to this folder (default: RECIPE/work)")
    add("--dry-run", action="store_true", help="show the commands, and do nothing else")


def add_model(parser: argparse.ArgumentParser, with_run: bool = False) -> None:
    """Add the options that choose a model, which --run may do as well."""
    parser.add_argument(
        "model",
        nargs="?" if with_run else None,
        help="name a model of the recipe, or any preset without posattn_",
    )
    parser.add_argument("--size", help="choose the size of the model (default: the first one)")
    add_corpora(parser)


def add_corpora(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses among the corpora of a recipe that has several."""
    parser.add_argument(
        "--corpora",
        nargs="+",
        metavar="NAME",
        help="take only these corpora, where the recipe has several (default: all that are "
        "prepared)",
    )


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the seeds."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--seed",
        type=not_negative,
        default=1,
        metavar="N",
        help="choose the run with this seed (default: 1)",
    )
    group.add_argument(
        "--seeds", type=seeds_of, metavar="LIST", help="take several seeds, as in 1-3 or 1,2,5"
    )


def seeds_of(text: str) -> list[int]:
    """Read a list of seeds, as in 1-3,7."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(first) <= int(last))):
            raise argparse.ArgumentTypeError(f"expected seeds as in 1-3 or 1,2,5, found '{text}'")
        found += range(int(first), int(last if dash else first) + 1)
    if not found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected each seed once, found '{text}'")
    return found


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the options of trainings."""
    add = parser.add_argument
    add(
        "--updates",
        type=positive,
        metavar="N",
        help="train for N updates, and not as the recipe says",
    )
    add(
        "--tokens",
        type=positive,
        metavar="N",
        help="put N tokens on a GPU at once; the batch stays the recipe's (default: "
        f"{DEFAULT_TOKENS})",
    )
    add(
        "--precision",
        choices=PRECISIONS,
        help="compute in this precision, which is else the one that the GPU does best",
    )


def add_evaluation(parser: argparse.ArgumentParser) -> None:
    """Add the options of evaluations."""
    add = parser.add_argument
    add(
        "--last",
        type=positive,
        metavar="N",
        help="average the last N checkpoints (default: as the recipe says)",
    )
    add(
        "--examples",
        type=not_negative,
        default=5,
        metavar="N",
        help="keep trees and attention of the first N sentences for the report (default: "
        "%(default)s)",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose processors."""
    add = parser.add_argument
    add("--cpu", action="store_true", help="work on the CPU, without GPUs")
    add(
        "--gpus",
        type=positive,
        metavar="N",
        help="use N GPUs of this machine, which several runs share (default: all)",
    )
    add("--processes", type=positive, metavar="N", help="with --cpu: start N processes")
    add(
        "--at-once",
        type=positive,
        metavar="N",
        help="do N runs side by side (default: as many as there are cores or GPUs for)",
    )


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose processors on one machine or several."""
    add_device(parser)
    add = parser.add_argument
    add("--nodes", type=positive, default=1, metavar="N", help="train on N machines together")
    add("--rendezvous", metavar="HOST:PORT", help="the N machines meet here")
    add(
        "--node-rank",
        type=not_negative,
        metavar="K",
        help="say which of the machines this one is, where 0 is HOST (default: torch decides)",
    )
