"""Define the command line of posattn recipe, with its steps and their options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.io.argument_types import command_parser, not_negative, positive
from fairseq_posattn.io.numbers import plain_numbers
from fairseq_posattn.lab.experiments.machine import DEFAULT_TOKENS, PRECISIONS


def parse_options(words: Sequence[str], description: str) -> argparse.Namespace:
    """Parse the command line; the arguments after `--` are returned in the attribute `rest`."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    parser = command_parser("posattn recipe", description)
    steps = parser.add_subparsers(required=True, metavar="STEP")
    for name, (what, rest, options_of_step) in STEPS.items():
        end = f"; options of {rest} may follow --" if rest else ""
        about = f"{what[0].upper()}{what[1:]}{end}."
        step = steps.add_parser(name, help=what, description=about)
        step.set_defaults(step=name, takes_rest=bool(rest))
        seeds = step.add_mutually_exclusive_group() if SEEDS[0] in options_of_step else step
        for names, how in options_of_step:
            (seeds if names[0] in ("--seed", "--seeds") else step).add_argument(*names, **how)
    options = parser.parse_args(with_model_in_front(parser, words[:cut]))
    options.rest = words[cut + 1 :]
    if options.rest and not options.takes_rest:
        parser.error(f"nothing may follow --, found {' '.join(options.rest)}")
    return options


def with_model_in_front(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Move the optional model argument of `evaluate` directly after the recipe argument.

    Without this, argparse does not recognise a model that follows other options.
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
    """Parse a list of seeds, such as 1-3,7."""
    found: list[int] = []
    for part in text.split(","):
        ends = plain_numbers(part.split("-"))
        if ends is None or len(ends) > 2 or not 0 <= ends[-1] - ends[0] < MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"expected seeds such as 1-3 or 1,2,5, found '{text}'")
        found += range(ends[0], ends[-1] + 1)
    if not found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected each seed once, found '{text}'")
    return found


def option(*names: str, **how: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    return names, how


def number(name: str, what: str, kind=positive, **how: Any):
    return option(name, type=kind, help=what, **how)


PLACE = (
    option("recipe", help="name of a recipe in recipes/, or folder with a recipe.toml"),
    option("--work", type=Path, help="write all files to this folder (default: RECIPE/work)"),
    option("--dry-run", action="store_true", help="only print the commands"),
)
MODEL = "model in the recipe, or any preset (without the prefix posattn_)"
CORPORA = option(
    "--corpora",
    nargs="+",
    metavar="NAME",
    help="for recipes with several corpora: use only these (default: all that are prepared)",
)
OF_MODEL = (
    option(
        "--size",
        help="size of the model (default: the first size in the recipe; without a GPU, `demo`)",
    ),
    CORPORA,
)
SEEDS = (
    number("--seed", "random seed (default: 1)", not_negative, default=1),
    option("--seeds", type=seeds_of, metavar="LIST", help="several seeds, such as 1-3 or 1,2,5"),
)
TRAINING = (
    number("--updates", "train for N updates (default: as in the recipe)"),
    number(
        "--tokens",
        "tokens that fit into GPU memory at once; does not change the batch size (default: "
        f"{DEFAULT_TOKENS})",
    ),
    option(
        "--precision",
        choices=PRECISIONS,
        help="training precision (default: the fastest that the GPU supports)",
    ),
)
EVALUATION = (
    number("--last", "average the last N checkpoints (default: as in the recipe)"),
    number(
        "--examples",
        "show trees and attention of the first N sentences in the report (default: %(default)s)",
        not_negative,
        default=5,
    ),
)
DEVICE = (
    option("--cpu", action="store_true", help="use the CPU only"),
    number("--gpus", "use N GPUs of this machine, divided among parallel runs (default: all)"),
    number("--processes", "with --cpu: number of processes per run (default: 1)"),
    number(
        "--at-once",
        "number of parallel runs (default: as many as the cores or GPUs permit)",
    ),
)
MACHINE = (
    *DEVICE,
    number("--nodes", "train on N machines together", default=1),
    option(
        "--rendezvous",
        metavar="HOST:PORT",
        help="address through which the N machines of --nodes connect to each other",
    ),
    number(
        "--node-rank",
        "rank of this machine; HOST has rank 0 (default: assigned by torch)",
        not_negative,
    ),
)
STEPS = {  # name -> description, program whose options may follow --, own options
    "prepare": (
        "build the data folders for fairseq from a corpus, with the trees that the models need",
        "posattn prepare",
        (
            *PLACE,
            option(
                "--from",
                dest="source",
                type=Path,
                metavar="FOLDER",
                help="read the corpus from FOLDER (default: the recipe's folder or downloads)",
            ),
            option(
                "--any-size",
                action="store_true",
                help="accept a corpus with any number of sentences",
            ),
            option(
                "--models",
                nargs="+",
                metavar="MODEL",
                help="build only the data that these models of the recipe need (default: all)",
            ),
        ),
    ),
    "train": (
        "train a model with one or several seeds",
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
            number("--updates", "select the run that was trained for N updates"),
            option(
                "--precision",
                choices=PRECISIONS,
                help="select the run that was trained with this --precision",
            ),
            option("--run", metavar="FOLDER", help="evaluate the run in this folder of WORK/runs"),
            option(
                "--baseline",
                metavar="MODEL",
                help="compare with another model of this size, trained with the same seeds",
            ),
            option(
                "--with-parsing",
                action="store_true",
                help="also measure the speed of translation with live parsing",
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
                help="use only the models of this size (default: all; demo if there is no GPU)",
            ),
            *(CORPORA, *SEEDS, *TRAINING, *EVALUATION, *MACHINE),
            option(
                "--keep",
                action="store_true",
                help="store the main score's statistics of each sentence in RECIPE/study",
            ),
            option(
                "--from-study",
                action="store_true",
                help="do not train; use the results that --keep stored in RECIPE/study (of all "
                "seeds, unless --seeds is given); requires the texts written by prepare",
            ),
            option(
                "--models", nargs="+", metavar="MODEL", help="use only these models of the recipe"
            ),
            option(
                "--baseline",
                action="append",
                default=[],
                metavar="MODEL",
                help="baseline: compare all models of the same size with MODEL; can be repeated "
                "(default: the first selected model of each size)",
            ),
        ),
    ),
    "sweep": (
        "train and evaluate a model with several values of an option, and plot the scores",
        "fairseq-train",
        (
            *PLACE,
            option("--size", help="size of the models (default: the first size in the recipe)"),
            *(*SEEDS, *TRAINING, *EVALUATION, *MACHINE),
        ),
    ),
    "options": (
        "print the options of fairseq-train for a preset and a size (demo, small, base or big)",
        "",
        (
            option("model", help="preset, without the prefix posattn_"),
            option(
                "size",
                help="model size; the settings of demo depend on the number of training sentences",
            ),
            option("data", type=Path, help="data folder written by posattn prepare"),
        ),
    ),
    "new": (
        "write a recipe for your own corpus",
        "",
        (
            option("folder", type=Path, help="write the recipe to this folder, such as mine"),
            option(
                "--source",
                required=True,
                help="source language and suffix of its files, such as en",
            ),
            option(
                "--target",
                required=True,
                help="target language and suffix of its files, such as de",
            ),
            option(
                "--from",
                dest="corpus",
                type=Path,
                required=True,
                metavar="FOLDER",
                help="folder with train, valid and test (or test1, test2 and so on) in both "
                "languages, such as train.en; the files may be compressed",
            ),
        ),
    ),
}
