"""Score all runs of a model together, and optionally compare them with the runs of a baseline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.requests import asked
from fairseq_posattn.lab.experiments.commands import python
from fairseq_posattn.lab.experiments.corpora import references
from fairseq_posattn.lab.experiments.recipe import FILE, REMEDY, arguments
from fairseq_posattn.lab.experiments.runs import KEY_DIGITS, Run, files_in
from fairseq_posattn.lab.experiments.study import Kept
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace
from fairseq_posattn.text import pipeline
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees.projection import SEPARATOR

if TYPE_CHECKING:
    from fairseq_posattn.lab.scoring.score import ScoreRequest

ONLY_MAIN = {"exact": False, "train-target": False, "train-counts": False, "only-main": True}


def score(
    place: Workplace,
    runs: Sequence[Run],
    baseline: Sequence[Run],
    test: str,
    plan: Plan,
) -> Path:
    """Score a test set unless it has been scored already; return the path of the JSON file.

    The file is in work/results. Its name ends with a checksum of the runs and settings, so
    different settings result in different files.
    """
    options = options_of(place, runs, baseline, test, plan)
    hypotheses = [run.scored(test) for run in runs]
    made_of = [plan.last, *(run.folder.name for run in [*runs, *baseline])]
    made_of += arguments({k: v for k, v in options.items() if not is_file(v)})
    made_of += arguments(place.content.evaluation.score)
    labels = labels_of(place, test)
    made_of += labels
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:KEY_DIGITS]
    against = f".against.{baseline[0].record.system}" if baseline else ""
    out = place.work / "results" / f"{runs[0].record.system}.{test}{against}.{key}.json"
    more: dict[str, Any] = {}
    if not isinstance(runs[0], Kept):
        more["train-counts"] = place.work / "train_counts.json"
    if labels:
        more["subsets"] = [f"{name}={path}" for name, path in labels.items()]
    words = arguments({**options, **more})
    command = python("fairseq_posattn.cli.score", *hypotheses, *words, "--json", out)
    about, log = f"scores of {test}", runs[0].folder / "evaluate.log"
    inputs = [*hypotheses, *labels.values(), *map(Path, files_in(arguments(options)))]
    run = partial(place.shell.run, command, log)
    place.once(about, out.parent, out.stem, made_of, inputs, [out], run)
    place.board.finish(about)
    return out


def options_of(
    place: Workplace, runs: Sequence[Run], baseline: Sequence[Run], test: str, plan: Plan
) -> dict[str, Any]:
    content, subset = place.content, place.subsets(plan)[test]
    options = shared_options(place, runs[0], test)
    if isinstance(runs[0], Kept):
        options |= {**ONLY_MAIN, "statistics": True}
    else:
        train = place.raw / f"{content.corpus.train}.{content.target}"
        options = {"train-target": train, **files_of(place, runs[0], test, plan), **options}
    words, trees = place.pieces / f"{subset}.words", place.pieces / f"{subset}.conllu.xz"
    if place.shell.is_there(words):
        options |= {"source": words, "trees": trees}
    else:  # without a parser, there is no file of words
        options["source"] = place.raw / f"{test}.{content.source}"
    if baseline:
        options["baseline"] = [run.scored(test) for run in baseline]
        options["baseline-name"] = baseline[0].record.system
    return options


def shared_options(place: Workplace, run: Run, test: str) -> dict[str, Any]:
    """Return the options of posattn score for the names, the references and the metrics."""
    content = place.content
    options: dict[str, Any] = {
        "name": run.record.system,
        "test": test,
        "source-lang": content.source,
        "target-lang": content.target,
        **references(place.recipe, place.raw, test),
        **content.evaluation.score,
    }
    if content.evaluation.main:
        options["main"] = content.evaluation.main
    if is_lower_case(place, run):
        options["lowercase"] = True
    return options


def statistics(place: Workplace, run: Run, test: str) -> tuple[str, str]:
    """Return the statistics of the main score for each sentence, and the score's signature."""
    from fairseq_posattn.lab.scoring.score import main_statistics

    return main_statistics(main_score_of(place, run, test))


def signature(place: Workplace, run: Run, test: str) -> str:
    from fairseq_posattn.lab.scoring.score import main_signature

    return main_signature(main_score_of(place, run, test))


def main_score_of(place: Workplace, run: Run, test: str) -> ScoreRequest:
    """Return a request for the main score of a run alone, as studies store it."""
    from fairseq_posattn.lab.scoring.score import ScoreRequest

    words = arguments({**shared_options(place, run, test), **ONLY_MAIN})
    return asked(ScoreRequest, None, [str(run.scored(test)), *words])


def files_of(place: Workplace, run: Run, test: str, plan: Plan) -> dict[str, Any]:
    """Return the options of posattn score that refer to files of a run, such as its logs."""
    options: dict[str, Any] = {
        "pieces": run.folder / f"{test}.src",
        "separator": separator(place, run),
        "train-log": logs(run.folder, "train*.log", "train.log"),
        "generate-log": logs(run.folder, f"{test}.shard*", f"{test}.shard0"),
    }
    if plan.with_parsing:
        name = f"{test}.parsed.shard"
        options["parsing-log"] = logs(run.folder, f"{name}*", f"{name}0")
    if plan.examples:
        options["examples"] = run.folder / f"{test}.examples.json"
        options["heads"] = run.folder / f"{test}.heads.json"
    return options


def check_scoring(place: Workplace) -> None:
    """Raise an InputError if the target language cannot be scored on this machine.

    For example, its tokeniser may not be installed. This is checked before training starts.
    """
    from fairseq_posattn.lab.scoring.metrics.scores import Settings

    chosen = place.content.evaluation.score
    Settings(place.content.target, chosen.get("tokenize")).bleu()


def labels_of(place: Workplace, test: str) -> dict[str, Path]:
    """Return the label files of a test set, by name."""
    names = place.content.evaluation.subsets.get(test, [])
    return {name: place.raw / f"{test}.{name}" for name in names}


def check_labels(place: Workplace) -> None:
    """Raise an InputError if the label files do not match the test sets.

    The error is also raised if recipe.toml contains published scores for a label that does not
    occur.
    """
    from fairseq_posattn.lab.scoring.metrics.buckets import read_labels
    from fairseq_posattn.lab.scoring.metrics.texts import read_text
    from fairseq_posattn.lab.scoring.score_record import MEAN

    known = {MEAN}
    for test in place.content.corpus.tests:
        for name, path in labels_of(place, test).items():
            text = read_text(str(place.raw / f"{test}.{place.content.source}"))
            known.update(read_labels([f"{name}={path}"], text)[name])
    for title, figures in place.content.evaluation.published.items():
        if others := [label for label in figures if label not in known]:
            raise InputError(
                f"{place.recipe.folder / FILE}: evaluation.published.{title} contains "
                f"'{others[0]}', but no sentence has this label; {REMEDY}"
            )


def is_lower_case(place: Workplace, run: Run) -> bool:
    """Return whether the data are lowercased, so that scores must be case-insensitive."""
    data = place.first_shard(run.record.test_trees)
    return pipeline.exists(data) and TextPipeline.load(data).config.lowercase


def separator(place: Workplace, run: Run) -> str:
    data = place.first_shard(run.record.test_trees)
    return TextPipeline.load(data).separator if pipeline.exists(data) else SEPARATOR


def logs(folder: Path, pattern: str, name: str) -> list[Path]:
    """Return the logs that match a pattern or, if there are none, the path of the log `name`.

    In a dry run, the logs do not exist yet.
    """
    return sorted(folder.glob(pattern)) or [folder / name]


def is_file(value: object) -> bool:
    return any(isinstance(one, Path) for one in (value if isinstance(value, list) else [value]))
