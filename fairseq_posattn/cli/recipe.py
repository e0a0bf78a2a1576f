r"""Run the experiment that a recipe describes, either step by step or as a whole.

    posattn recipe prepare multi30k_en_de -- --download --workers 2
    posattn recipe table multi30k_en_de --size demo --seeds 1-3 --cpu

RECIPE is a folder with a recipe.toml, or the name of a folder in recipes/. Run an interrupted step
again to resume it; completed work is not repeated. In a checkout, scripts such as
recipes/prepare.sh set up the environment first and then run the same steps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments import recipe_options as step
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.terminal import say, visible


def experiment_of(request: step.OnRecipe) -> Any:
    """Return the experiment; raise an InputError if the options do not match its recipe."""
    from fairseq_posattn.experiments.recipe import recipe_file
    from fairseq_posattn.experiments.translation import experiment_class

    file = recipe_file(request.recipe)
    if not (request.work or file.parent / "work").exists():
        say_whose_code_runs(file.parent)
    experiment = experiment_class(file)(request)
    experiment.shell.act(lambda: experiment.work.mkdir(parents=True, exist_ok=True))
    return experiment


def say_whose_code_runs(folder: Path) -> None:
    """Warn that the Python files of a recipe run with all of the user's permissions."""
    from fairseq_posattn.experiments.corpora import SPECIAL
    from fairseq_posattn.experiments.experiment import TRIAL

    for path in (folder / TRIAL, folder / SPECIAL):
        if path.exists():
            say(f"{path}: the recipe runs this code with all of your permissions")


def row_of(experiment: Any, request: step.Train | step.Evaluate, size: str | None) -> Any:
    """Return the `[[models]]` entry that MODEL and --size select."""
    if request.model is None:
        known = dict.fromkeys(row.title for row in experiment.rows(None))
        raise InputError(
            f"no model is given; specify one from the recipe, such as {' '.join(known)}"
        )
    return experiment.recipe.row(request.model, size)


def prepare(experiment: Any, request: step.Prepare) -> None:
    if request.models:
        experiment.take_only(request.models)
    experiment.prepare(request.source, request.any_size, request.rest)


def train(experiment: Any, request: step.Train) -> None:
    row = row_of(experiment, request, experiment.sized(request.size))
    experiment.train(row, request.all_seeds)


def evaluate(experiment: Any, request: step.Evaluate) -> None:
    size = experiment.sized(request.size)
    if request.run and (request.seeds or request.seed != 1):
        raise InputError("--run selects a single run; leave out --seed and --seeds")
    if request.run:
        runs = [experiment.named(request.run)]
        size = runs[0].record.size
    else:
        runs = experiment.trained(row_of(experiment, request, size), request.all_seeds)
    experiment.evaluate(runs, request.baseline and experiment.recipe.row(request.baseline, size))


def table(experiment: Any, request: step.Table) -> None:
    if request.keep and request.from_study:
        raise InputError("--from-study reads the results that --keep stored earlier; omit --keep")
    size, models = experiment.sized(request.size), request.models or []
    rows = experiment.rows(size, [*models, *request.baseline])
    if models:
        rows = [row for row in rows if row.title in [*models, *request.baseline]]
    of_study = request.from_study and not request.seeds
    experiment.table(rows, [] if of_study else request.all_seeds, request.baseline)


def sweep(experiment: Any, request: step.Sweep) -> None:
    experiment.sweep(experiment.sized(request.size), request.all_seeds)


def new(request: step.New) -> None:
    from fairseq_posattn.experiments.commands import called
    from fairseq_posattn.experiments.new_recipe import new_recipe

    path = new_recipe(request.folder, request.source, request.target, request.corpus)
    print(f"{path}: the recipe was written; continue with {called('prepare', request.folder)}")


def options_of_training(request: step.Options) -> None:
    """Print the options that fairseq-train requires to train a preset of a given size.

    They contain no spaces or quotes, so `$(posattn recipe options ...)` can be used in a shell.
    """
    from fairseq_posattn.experiments.training_options import options_for

    words = options_for(request.model, request.size, request.data)
    print(*(word.strip("()").replace(" ", "") for word in words))


ALONE: dict[type, Any] = {step.New: new, step.Options: options_of_training}
OF_EXPERIMENT: dict[type, Any] = {
    **{step.Prepare: prepare, step.Train: train, step.Evaluate: evaluate},
    **{step.Table: table, step.Sweep: sweep},
}


def main() -> None:
    """Run a step of the recipe; if a command fails, exit with `CommandFailed.code`."""
    from fairseq_posattn.experiments.commands import CommandFailed

    request = step.asked_recipe(sys.argv[1:], __doc__)
    if alone := ALONE.get(type(request)):
        alone(request)
        return
    experiment = experiment_of(request)
    with experiment.shell.passing_signals_on():
        try:
            OF_EXPERIMENT[type(request)](experiment, request)
        except CommandFailed as error:
            print(f"error: {visible(str(error))}", file=sys.stderr)
            sys.exit(error.code)


if __name__ == "__main__":
    run(main)
