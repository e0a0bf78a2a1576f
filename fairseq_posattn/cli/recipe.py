r"""Run the experiment that a recipe describes, either step by step or as a whole.

    posattn recipe prepare multi30k_en_de -- --download --workers 2
    posattn recipe table multi30k_en_de --size demo --seeds 1-3 --cpu

RECIPE is a folder with a recipe.toml, or the name of a folder in recipes/. Run an interrupted step
again to resume it; completed work is not repeated. In a checkout, scripts such as
recipes/prepare.sh set up the environment first and then run the same steps.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.command_line import run
from fairseq_posattn.io.progress import say
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab.experiments.recipe_options import parse_options


def machine_of(options: argparse.Namespace):
    from fairseq_posattn.lab.experiments.machine import Machine

    names = ["cpu", "gpus", "processes", "nodes", "rendezvous", "node_rank", "tokens", "precision"]
    names.append("dry_run")
    return Machine(**{name: getattr(options, name) for name in names if hasattr(options, name)})


def experiment_of(options: argparse.Namespace) -> Any:
    """Return the experiment; raise an InputError if the options do not match its recipe."""
    from fairseq_posattn.lab.experiments.commands import Shell
    from fairseq_posattn.lab.experiments.experiment import Settings
    from fairseq_posattn.lab.experiments.recipe import recipe_file
    from fairseq_posattn.lab.experiments.translation import Translation
    from fairseq_posattn.lab.experiments.trials import trial_class

    names = ["updates", "precision", "last", "examples", "with_parsing", "on_valid"]
    names += ["keep", "from_study", "at_once"]
    asked = {name: getattr(options, name) for name in names if hasattr(options, name)}
    called = join(["posattn", "recipe", *sys.argv[1:]])
    corpora = getattr(options, "corpora", None) or ()
    settings = Settings(**asked, corpora=corpora, training=options.rest, called=called)
    shell = Shell(options.dry_run)
    file = recipe_file(options.recipe)
    work = (options.work or file.parent / "work").absolute()
    if not work.exists():
        say_whose_code_runs(file.parent)
    kind = trial_class(file) or Translation
    experiment = kind(file, work, settings, machine_of(options), shell)
    experiment.refuse(options.step, vars(options))
    if hasattr(options, "size"):
        options.size = experiment.sized(options.size)
    shell.act(lambda: work.mkdir(parents=True, exist_ok=True))
    return experiment


def say_whose_code_runs(folder: Path) -> None:
    """Warn that the Python files of a recipe run with all of the user's permissions."""
    from fairseq_posattn.lab.experiments.corpora import SPECIAL
    from fairseq_posattn.lab.experiments.trials import TRIAL

    for path in (folder / TRIAL, folder / SPECIAL):
        if path.exists():
            say(f"{path}: the recipe runs this code with all of your permissions")


def row_of(experiment: Any, options: argparse.Namespace) -> Any:
    """Return the `[[models]]` entry that --model and --size select."""
    if options.model is None:
        known = dict.fromkeys(row.title for row in experiment.rows(None))
        raise InputError(
            f"no model is given; specify one from the recipe, such as {' '.join(known)}"
        )
    return experiment.row(options.model, options.size)


def seeds(options: argparse.Namespace) -> list[int]:
    return options.seeds or [options.seed]


def prepare(experiment: Any, options: argparse.Namespace) -> None:
    if options.models:
        experiment.take_only(options.models)
    experiment.prepare(options.source, options.any_size, options.rest)


def evaluate(experiment: Any, options: argparse.Namespace) -> None:
    if options.run and (options.seeds or options.seed != 1):
        raise InputError("--run selects a single run; leave out --seed and --seeds")
    if options.run:
        record = experiment.named(options.run).record
        options.model, options.size = record.name, record.size
    baseline = options.baseline and experiment.row(options.baseline, options.size)
    if options.run:
        experiment.evaluate(None, [experiment.named(options.run)], baseline)
        return
    row = row_of(experiment, options)
    experiment.evaluate(row, experiment.trained(row, seeds(options)), baseline)


def table(experiment: Any, options: argparse.Namespace) -> None:
    if options.keep and options.from_study:
        raise InputError("--from-study reads the results that --keep stored earlier; omit --keep")
    rows = experiment.rows(options.size, [*(options.models or []), *options.baseline])
    if options.models:
        rows = [row for row in rows if row.title in [*options.models, *options.baseline]]
    of_study = options.from_study and not options.seeds
    experiment.table(rows, [] if of_study else seeds(options), options.baseline)


def new(options: argparse.Namespace) -> None:
    from fairseq_posattn.lab.experiments.commands import called
    from fairseq_posattn.lab.experiments.new_recipe import new_recipe

    path = new_recipe(options.folder, options.source, options.target, options.corpus)
    print(f"{path}: the recipe was written; continue with {called('prepare', options.folder)}")


def options_of_training(options: argparse.Namespace) -> None:
    """Print the options that fairseq-train requires to train a preset of a given size.

    They contain no spaces or quotes, so `$(posattn recipe options ...)` can be used in a shell.
    """
    from fairseq_posattn.lab.experiments.training_options import options_for

    words = options_for(options.model, options.size, options.data)
    print(*(word.strip("()").replace(" ", "") for word in words))


STEPS = {
    "prepare": prepare,
    "train": lambda experiment, asked: experiment.train(row_of(experiment, asked), seeds(asked)),
    "evaluate": evaluate,
    "table": table,
    "sweep": lambda experiment, asked: experiment.sweep(asked.size, seeds(asked)),
}


def main() -> None:
    """Run a step of the recipe; if one of its commands fails, exit with the same exit code."""
    from fairseq_posattn.lab.experiments.commands import CommandFailed

    options = parse_options(sys.argv[1:], __doc__)
    if alone := {"new": new, "options": options_of_training}.get(options.step):
        alone(options)
        return
    experiment = experiment_of(options)
    with experiment.shell.passing_signals_on():
        try:
            STEPS[options.step](experiment, options)
        except CommandFailed as error:
            print(f"error: {visible(str(error))}", file=sys.stderr)
            sys.exit(error.code)


command = partial(run, main)
if __name__ == "__main__":
    command()
