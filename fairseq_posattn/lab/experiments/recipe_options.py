"""Say what options the steps of posattn recipe have."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.io.argument_types import command_parser, not_negative, positive
from fairseq_posattn.io.numbers import plain_numbers
from fairseq_posattn.lab.experiments.machine import DEFAULT_TOKENS, PRECISIONS


def parse_options(words: Sequence[str], description: str) -> argparse.Namespace:
    """Read the options of the command line; what follows `--` is kept in `rest`."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    parser = command_parser("posattn recipe", description)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for name, (what, rest, options_of_step) in STEPS.items():
        end = f"; options of {rest} may follow after --" if rest else ""
        about = f"{what[0].upper()}{what[1:]}{end}."
        step = steps.add_parser(name, help=what, description=about)
        step.set_defaults(step=name, takes_rest=bool(rest))
        seeds = step.add_mutually_exclusive_group() if SEEDS[0] in options_of_step else step
        for names, how in options_of_step:
            (seeds if names[0] in ("--seed", "--seeds") else step).add_argument(*names, **how)
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


MOST_SEEDS = 1000


def seeds_of(text: str) -> list[int]:
    """Read a list of seeds, as in 1-3,7."""
    found: list[int] = []
    for part in text.split(","):
        ends = plain_numbers(part.split("-"))
        if ends is None or len(ends) > 2 or not 0 <= ends[-1] - ends[0] < MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"expected seeds as in 1-3 or 1,2,5, found '{text}'")
        found += range(ends[0], ends[-1] + 1)
    if not found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected each seed once, found '{text}'")
    return found


def option(*names: str, **how: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return an option as a parser takes it."""
    return names, how


def number(name: str, what: str, kind=positive, **how: Any):
    """Return an option that has a number."""
    return option(name, type=kind, help=what, **how)


PLACE = (
    option("recipe", help="name the recipe, or a folder with a recipe.toml"),
    option("--work", type=Path, help="write all files to this folder (default: RECIPE/work)"),
    option("--dry-run", action="store_true", help="show the commands, and do nothing else"),
)
MODEL = "name a model of the recipe, or any preset without posattn_"
CORPORA = option(
    "--corpora",
    nargs="+",
    metavar="NAME",
    help="take only these corpora, where the recipe has several (default: all that are prepared)",
)
OF_MODEL = (
    option(
        "--size",
        help="choose the size of the model (default: the first one, or demo without a GPU)",
    ),
    CORPORA,
)
SEEDS = (
    number("--seed", "choose the run with this seed (default: 1)", not_negative, default=1),
    option("--seeds", type=seeds_of, metavar="LIST", help="take several seeds, as in 1-3 or 1,2,5"),
)
TRAINING = (
    number("--updates", "train for N updates, and not as the recipe says"),
    number(
        "--tokens",
        f"put N tokens on a GPU at once; the batch stays the recipe's (default: {DEFAULT_TOKENS})",
    ),
    option(
        "--precision",
        choices=PRECISIONS,
        help="compute in this precision, which is else the one that the GPU does best",
    ),
)
EVALUATION = (
    number("--last", "average the last N checkpoints (default: as the recipe says)"),
    number(
        "--examples",
        "keep trees and attention of the first N sentences for the report (default: %(default)s)",
        not_negative,
        default=5,
    ),
)
DEVICE = (
    option("--cpu", action="store_true", help="work on the CPU, without GPUs"),
    number("--gpus", "use N GPUs of this machine, which several runs share (default: all)"),
    number("--processes", "with --cpu: start N processes"),
    number(
        "--at-once",
        "do N runs side by side (default: as many as there are cores or GPUs for)",
    ),
)
MACHINE = (
    *DEVICE,
    number("--nodes", "train on N machines together", default=1),
    option("--rendezvous", metavar="HOST:PORT", help="the N machines meet here"),
    number(
        "--node-rank",
        "say which of the machines this one is, where 0 is HOST (default: torch decides)",
        not_negative,
    ),
)
STEPS = {  # what each step does, the program whose options may follow --, and its own options
    "prepare": (
        "turn a corpus into data for fairseq, with the trees of each control",
        "posattn prepare",
        (
            *PLACE,
            option(
                "--from",
                dest="source",
                type=Path,
                metavar="FOLDER",
                help="read the corpus in DIR (default: download it, where that is allowed)",
            ),
            option("--any-size", action="store_true", help="accept any number of sentences"),
            option(
                "--models",
                nargs="+",
                metavar="MODEL",
                help="make only the data that these models of the recipe read (default: all)",
            ),
        ),
    ),
    "train": (
        "train a model with one seed or several",
        "fairseq-train",
        (*PLACE, option("model", help=MODEL), *OF_MODEL, *SEEDS, *TRAINING, *MACHINE),
    ),
    "evaluate": (
        "average checkpoints, translate the test sets, and score them",
        "fairseq-train that the run was trained with",
        (
            *PLACE,
            option("model", nargs="?", help=MODEL),
            *(*OF_MODEL, *SEEDS, *EVALUATION, *DEVICE),
            number("--updates", "choose the run of N updates"),
            option(
                "--precision",
                choices=PRECISIONS,
                help="choose the run that was trained with this --precision",
            ),
            option("--run", metavar="FOLDER", help="evaluate the run in this folder of WORK/runs"),
            option(
                "--baseline",
                metavar="MODEL",
                help="compare with another model of this size, which was trained with the same "
                "seeds",
            ),
            option(
                "--with-parsing",
                action="store_true",
                help="measure the speed with live parsing, too",
            ),
            option(
                "--on-valid",
                action="store_true",
                help="evaluate on the validation set instead of the test sets",
            ),
        ),
    ),
    "table": (
        "train and evaluate all models of the recipe, and write tables and a report",
        "fairseq-train",
        (
            *PLACE,
            option(
                "--size",
                help="take only the models of this size (default: all, or demo without a GPU)",
            ),
            *(CORPORA, *SEEDS, *TRAINING, *EVALUATION, *MACHINE),
            option(
                "--keep",
                action="store_true",
                help="keep the translations of all runs in RECIPE/study",
            ),
            option(
                "--from-study",
                action="store_true",
                help="train nothing: make the tables from the translations that are kept in "
                "RECIPE/study, of all seeds without --seeds; needs the texts that prepare made",
            ),
            option(
                "--models", nargs="+", metavar="MODEL", help="take only these models of the recipe"
            ),
            option(
                "--baseline",
                action="append",
                default=[],
                metavar="MODEL",
                help="compare all models with this one of their size; may be given several times "
                "(default: the first of the size among the chosen models)",
            ),
        ),
    ),
    "sweep": (
        "train and evaluate a model with several values of an option, and draw the scores",
        "fairseq-train",
        (
            *PLACE,
            option(
                "--size", help="take the models of this size (default: the first of the recipe)"
            ),
            *(*SEEDS, *TRAINING, *EVALUATION, *MACHINE),
        ),
    ),
    "options": (
        "print the options of fairseq-train for a preset of a size: demo, small, base or big",
        "",
        (
            option("model", help="name a preset without posattn_"),
            option("size", help="name the size; demo is fitted to the number of sentences"),
            option("data", type=Path, help="the data folder of posattn prepare"),
        ),
    ),
    "new": (
        "write a recipe for a corpus of your own",
        "",
        (
            option("folder", type=Path, help="write the recipe into this folder, such as mine"),
            option(
                "--source",
                required=True,
                help="translate from this language, in which file names end",
            ),
            option(
                "--target",
                required=True,
                help="translate into this language, in which file names end",
            ),
            option(
                "--from",
                dest="corpus",
                type=Path,
                required=True,
                metavar="FOLDER",
                help="the folder has train, valid and test (or test1, test2 and so on) in both "
                "languages, such as train.en, plain or compressed",
            ),
        ),
    ),
}
