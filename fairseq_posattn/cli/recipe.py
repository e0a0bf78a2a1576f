r"""Run an experiment that a recipe describes, step by step or as a whole.

    posattn-recipe prepare multi30k_en_de -- --download --workers 2
    posattn-recipe table multi30k_en_de --size demo --seeds 1-3 --cpu

A recipe is a folder with a recipe.toml, or the name of one in recipes/. Each step goes on where it
was interrupted, and what is done is not done again. In a checkout, recipes/prepare.sh and so on do
the same, and set up the environment first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from shlex import quote
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.command_line import error_line, run
from fairseq_posattn.io.progress import say
from fairseq_posattn.lab.experiments.recipe_options import parse_options


def machine_of(options: argparse.Namespace):
    """Return what the options say about the machine."""
    from fairseq_posattn.lab.experiments.machine import Machine

    names = ["cpu", "gpus", "processes", "nodes", "rendezvous", "node_rank", "tokens", "precision"]
    names.append("dry_run")
    return Machine(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def experiment_of(options: argparse.Namespace) -> Any:
    """Return the experiment that the options describe."""
    from fairseq_posattn.lab.experiments.commands import Shell
    from fairseq_posattn.lab.experiments.recipe import recipe_file
    from fairseq_posattn.lab.experiments.translation import Translation
    from fairseq_posattn.lab.experiments.trials import trial_class
    from fairseq_posattn.lab.experiments.workplace import Place, Plan

    names = ("updates", "precision", "last", "examples", "with_parsing", "on_valid")
    asked = {name: getattr(options, name) for name in names if hasattr(options, name)}
    plan, shell = Plan(**asked, training=options.rest), Shell(options.dry_run)
    file = recipe_file(options.recipe)
    work = (options.work or file.parent / "work").absolute()
    if not work.exists():
        say_whose_code_runs(file.parent)
    kind = trial_class(file) or Translation
    more = getattr(options, "at_once", None), getattr(options, "corpora", None) or ()
    experiment = kind(file, Place(work, shell), plan, machine_of(options), *more)
    experiment.refuse(options.step, vars(options))
    shell.act(lambda: work.mkdir(parents=True, exist_ok=True))
    return experiment


def say_whose_code_runs(folder: Path) -> None:
    """Name the Python files of a recipe, which may do all that the user may do."""
    from fairseq_posattn.lab.experiments.corpora import SPECIAL
    from fairseq_posattn.lab.experiments.trials import TRIAL

    for path in (folder / TRIAL, folder / SPECIAL):
        if path.exists():
            say(f"{path}: this code of the recipe runs with all your rights")


def row_of(experiment: Any, options: argparse.Namespace) -> Any:
    """Return the model that the options choose."""
    if options.model is None:
        known = dict.fromkeys(row.title for row in experiment.rows(None))
        raise InputError(f"name a model, such as one of the recipe: {' '.join(known)}")
    return experiment.row(options.model, options.size)


def seeds(options: argparse.Namespace) -> list[int]:
    """Return the seeds that the options choose."""
    return options.seeds or [options.seed]


def prepare(options: argparse.Namespace):
    """Make the data of a recipe."""
    experiment = experiment_of(options)
    return experiment.place.shell, lambda: experiment.prepare(
        options.source, options.any_size, options.rest
    )


def train(options: argparse.Namespace):
    """Train a model with its seeds."""
    experiment = experiment_of(options)
    row = row_of(experiment, options)
    return experiment.place.shell, lambda: experiment.train(row, seeds(options))


def evaluate(options: argparse.Namespace):
    """Evaluate a model that was trained."""
    experiment = experiment_of(options)
    baseline = None
    if options.run and (options.seeds or options.seed != 1):
        raise InputError("--run names one run; leave out --seed and --seeds")
    if options.run:
        record = experiment.named(options.run).record
        options.model, options.size = record.name, record.size
    if options.baseline:
        baseline = experiment.row(options.baseline, options.size)
    row = None if options.run else row_of(experiment, options)
    return experiment.place.shell, lambda: experiment.evaluate(
        row, seeds(options), baseline, options.run
    )


def table(options: argparse.Namespace):
    """Train and evaluate all models."""
    experiment = experiment_of(options)
    rows = experiment.rows(options.size, [*(options.models or []), *options.baseline])
    if options.models:
        rows = [row for row in rows if row.title in [*options.models, *options.baseline]]
    return experiment.place.shell, lambda: experiment.table(rows, seeds(options), options.baseline)


def sweep(options: argparse.Namespace):
    """Try the values of an option."""
    experiment = experiment_of(options)
    return experiment.place.shell, lambda: experiment.sweep(options.size, seeds(options))


def new(options: argparse.Namespace):
    """Write a recipe for new texts."""
    from fairseq_posattn.lab.experiments.commands import Shell
    from fairseq_posattn.lab.experiments.new_recipe import new_recipe
    from fairseq_posattn.lab.experiments.recipe import CHECKOUT

    name = options.name
    folder = Path(name) if "/" in name else CHECKOUT / "recipes" / name

    def write() -> None:
        path = new_recipe(folder, options.source, options.target, options.corpus)
        print(f"{path}: the recipe was written; go on with recipes/prepare.sh {quote(name)}")

    return Shell(), write


STEPS = {
    "prepare": prepare,
    "train": train,
    "evaluate": evaluate,
    "table": table,
    "sweep": sweep,
    "new": new,
}


def main() -> None:
    """Do the step that the command line names; end with the exit code of a command that failed."""
    from fairseq_posattn.lab.experiments.commands import CommandFailed

    options = parse_options(sys.argv[1:], __doc__)
    shell, action = STEPS[options.step](options)
    with shell.passing_signals_on():
        try:
            action()
        except CommandFailed as error:
            print(error_line(error), file=sys.stderr)
            sys.exit(error.code)


def command() -> None:
    """Run the command and exit."""
    run(main)


if __name__ == "__main__":
    command()
