"""The options of posattn recipe: one request for each of its steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fairseq_posattn.experiments.machine import (
    DEFAULT_TOKENS,
    PRECISIONS,
    Machine,
)
from fairseq_posattn.files.numbers import plain_numbers
from fairseq_posattn.files.records import at_least, one_of, option
from fairseq_posattn.files.requests import asked_step, options_of

MODEL = "model in the recipe, or any preset (without the prefix posattn_)"
MOST_SEEDS = 1000


def seeds_of(text: str) -> tuple[int, ...]:
    """Parse a list of seeds, such as 1-3,7."""
    found: list[int] = []
    for part in text.split(","):
        ends = plain_numbers(part.split("-"))
        if ends is None or len(ends) > 2 or not 0 <= ends[-1] - ends[0] < MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"expected seeds such as 1-3 or 1,2,5, found '{text}'")
        found += range(ends[0], ends[-1] + 1)
    if not found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"expected each seed once, found '{text}'")
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class OnRecipe:
    """Options of all steps that an experiment runs.

    rest: options of posattn prepare or fairseq-train, given after `--`.
    """

    command: ClassVar[str]
    # options of some steps, with their values in the other steps
    machine = Machine()
    with_parsing = on_valid = keep = from_study = False

    recipe: str = option("name of a recipe in recipes/, or folder with a recipe.toml")
    work: Path | None = option("write all files to this folder (default: RECIPE/work)", None)
    dry_run: bool = option("only print the commands", False)
    rest: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class OfSize:
    size: str | None = option(
        "size of the model (default: the first size in the recipe; without a GPU, `demo`)", None
    )


@dataclass(frozen=True, kw_only=True)
class OnCorpora:
    corpora: list[str] | None = option(
        "for recipes with several corpora: use only these (default: all that are prepared)",
        None,
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class Seeds:
    seed: int = option("random seed (default: 1)", 1, at_least(0), either="seeds")
    seeds: tuple[int, ...] | None = option(
        "several seeds, such as 1-3 or 1,2,5",
        None,
        type=seeds_of,
        write=lambda seeds: ",".join(map(str, seeds)),
        metavar="LIST",
        either="seeds",
    )

    @property
    def all_seeds(self) -> list[int]:
        return [*(self.seeds or [self.seed])]


@dataclass(frozen=True, kw_only=True)
class Training:
    updates: int | None = option(
        "train for N updates (default: as in the recipe)", None, at_least(1)
    )
    tokens: int | None = option(
        "tokens that fit into GPU memory at once; does not change the batch size (default: "
        f"{DEFAULT_TOKENS})",
        None,
        at_least(1),
    )
    precision: str | None = option(
        "training precision (default: the fastest that the GPU supports)", None, one_of(*PRECISIONS)
    )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    last: int | None = option(
        "average the last N checkpoints (default: as in the recipe)", None, at_least(1)
    )
    examples: int = option(
        "show trees and attention of the first N sentences in the report (default: %(default)s)",
        5,
        at_least(0),
    )


@dataclass(frozen=True, kw_only=True)
class OneMachine(Machine):
    """The options of steps that use a single machine."""

    nodes: int = 1
    rendezvous: str | None = None
    node_rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class Prepare(OnRecipe):
    """Build the data folders for fairseq from a corpus, with the trees that the models need;
    options of posattn prepare may follow --.
    """

    command: ClassVar = "posattn recipe prepare"
    source: Path | None = option(
        "read the corpus from FOLDER (default: the recipe's folder or downloads)",
        None,
        flag="--from",
        metavar="FOLDER",
    )
    any_size: bool = option("accept a corpus with any number of sentences", False)
    models: list[str] | None = option(
        "build only the data that these models of the recipe need (default: all)",
        None,
        metavar="MODEL",
    )


@dataclass(frozen=True, kw_only=True)
class Train(Training, Seeds, OnCorpora, OfSize, OnRecipe):
    """Train a model with one or several seeds; options of fairseq-train may follow --."""

    command: ClassVar = "posattn recipe train"
    machine: Machine = options_of(Machine)
    model: str = option(MODEL)


@dataclass(frozen=True, kw_only=True)
class Evaluate(Evaluation, Seeds, OnCorpora, OfSize, OnRecipe):
    """Average checkpoints, translate the test sets, and score them; options of fairseq-train that
    the run was trained with may follow --.
    """

    command: ClassVar = "posattn recipe evaluate"
    machine: OneMachine = options_of(OneMachine)
    model: str | None = option(MODEL, None, positional=True)
    updates: int | None = option("select the run that was trained for N updates", None, at_least(1))
    precision: str | None = option(
        "select the run that was trained with this --precision", None, one_of(*PRECISIONS)
    )
    run: str | None = option("evaluate the run in this folder of WORK/runs", None, metavar="FOLDER")
    baseline: str | None = option(
        "compare with another model of this size, trained with the same seeds",
        None,
        metavar="MODEL",
    )
    with_parsing: bool = option("also measure the speed of translation with live parsing", False)
    on_valid: bool = option("evaluate on the validation set instead of the test sets", False)


@dataclass(frozen=True, kw_only=True)
class Table(Evaluation, Training, Seeds, OnCorpora, OfSize, OnRecipe):
    """Train and evaluate all models of the recipe, and write tables and a report; options of
    fairseq-train may follow --.
    """

    command: ClassVar = "posattn recipe table"
    machine: Machine = options_of(Machine)
    size: str | None = option(
        "use only the models of this size (default: all; demo if there is no GPU)", None
    )
    keep: bool = option("store the main score's statistics per sentence in RECIPE/study", False)
    from_study: bool = option(
        "do not train; use the results that --keep stored in RECIPE/study (of all seeds, unless "
        "--seeds is given); requires the texts written by prepare",
        False,
    )
    models: list[str] | None = option("use only these models of the recipe", None, metavar="MODEL")
    baseline: list[str] = option(
        "baseline: compare all models of the same size with MODEL; can be repeated (default: the "
        "first selected model of each size)",
        [],
        action="append",
        metavar="MODEL",
    )


@dataclass(frozen=True, kw_only=True)
class Sweep(Evaluation, Training, Seeds, OfSize, OnRecipe):
    """Train and evaluate a model with several values of an option, and plot the scores; options of
    fairseq-train may follow --.
    """

    command: ClassVar = "posattn recipe sweep"
    machine: Machine = options_of(Machine)
    on_valid = True
    size: str | None = option("size of the models (default: the first size in the recipe)", None)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Print the options of fairseq-train for a preset and a size (demo, small, base or big)."""

    command: ClassVar = "posattn recipe options"
    model: str = option("preset, without the prefix posattn_")
    size: str = option(
        "model size; the settings of demo depend on the number of training sentences"
    )
    data: Path = option("data folder written by posattn prepare")


@dataclass(frozen=True, kw_only=True)
class New:
    """Write a recipe for your own corpus."""

    command: ClassVar = "posattn recipe new"
    folder: Path = option("write the recipe to this folder, such as mine")
    source: str = option("source language and suffix of its files, such as en", required=True)
    target: str = option("target language and suffix of its files, such as de", required=True)
    corpus: Path = option(
        "folder with train, valid and test (or test1, test2 and so on) in both languages, such as "
        "train.en; the files may be compressed",
        required=True,
        flag="--from",
        metavar="FOLDER",
    )


STEPS = (Prepare, Train, Evaluate, Table, Sweep, Options, New)


def asked_recipe(words: Sequence[str], description: str | None) -> Any:
    """Return the request of a step; the words after `--` are its `rest`."""
    words = list(words)
    cut = words.index("--") if "--" in words else len(words)
    return asked_step(STEPS, description, words[:cut], words[cut + 1 :])
