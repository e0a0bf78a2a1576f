"""Score all runs of a model together, and optionally compare them with the runs of a baseline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import request_of
from fairseq_posattn.experiments.corpora import references
from fairseq_posattn.experiments.recipe import FILE, REMEDY, arguments
from fairseq_posattn.experiments.runs import KEY_DIGITS, Run, files_in
from fairseq_posattn.experiments.study import StoredRun
from fairseq_posattn.experiments.workspace import Workspace
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.text import pipeline
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees.projection import SEPARATOR

ONLY_MAIN = {"exact": False, "train-target": None, "only-main": True}


def score(setup: Workspace, runs: Sequence[Run], baseline: Sequence[Run], test: str) -> Path:
    """Score a test set unless it has been scored already; return the path of the JSON file.

    The file is in work/results. Its name ends with a checksum of the runs and settings, so
    different settings result in different files.
    """
    options = options_of(setup, runs, baseline, test)
    hypotheses = [run.scored(test) for run in runs]
    made_of = [setup.settings.last, *(run.folder.name for run in [*runs, *baseline])]
    made_of += arguments({k: v for k, v in options.items() if not is_file(v)})
    made_of += arguments(setup.content.evaluation.score)
    labels = labels_of(setup, test)
    made_of += labels
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:KEY_DIGITS]
    against = f".against.{baseline[0].record.system}" if baseline else ""
    out = setup.work / "results" / f"{runs[0].record.system}.{test}{against}.{key}.json"
    more: dict[str, Any] = {"hypotheses": hypotheses, "json": out}
    if not isinstance(runs[0], StoredRun):
        more["train-counts"] = setup.work / "train_counts.json"
    if labels:
        more["subsets"] = [f"{name}={path}" for name, path in labels.items()]
    request, about = request_with({**options, **more}), f"scores of {test}"
    inputs = [*hypotheses, *labels.values(), *map(Path, files_in(arguments(options)))]
    action = partial(setup.shell.call, write, request)
    setup.do_once(about, out.parent, out.stem, made_of, inputs, [out], action)
    setup.progress.finish(about)
    return out


def write(request: ScoreRequest) -> None:
    from fairseq_posattn.scoring.score import write_scores  # a dry run does not require its imports

    write_scores(request)


def request_with(options: Mapping[str, Any]) -> ScoreRequest:
    """Return the request with these options of posattn score; paths become text."""

    def as_text(value: Any) -> Any:
        return [*map(str, value)] if isinstance(value, list) else str(value)

    texts = {name: as_text(value) for name, value in options.items() if is_file(value)}
    return request_of(ScoreRequest, {**options, **texts})


def options_of(
    setup: Workspace, runs: Sequence[Run], baseline: Sequence[Run], test: str
) -> dict[str, Any]:
    content, subset = setup.content, setup.subsets()[test]
    options = shared_options(setup, runs[0], test)
    if isinstance(runs[0], StoredRun):
        options |= {**ONLY_MAIN, "statistics": True}
    else:
        train = setup.raw / f"{content.corpus.train}.{content.target}"
        options = {"train-target": train, **files_of(setup, runs[0], test), **options}
    words, trees = (setup.pieces() / f"{subset}.{end}" for end in ("words", "conllu.xz"))
    if setup.shell.is_there(words):
        options |= {"source": words, "trees": trees}
    else:  # without a parser, there is no file of words
        options["source"] = setup.raw / f"{test}.{content.source}"
    if baseline:
        options["baseline"] = [run.scored(test) for run in baseline]
        options["baseline-name"] = baseline[0].record.system
    return options


def shared_options(setup: Workspace, run: Run, test: str) -> dict[str, Any]:
    """Return the options of posattn score for the names, the references and the metrics."""
    content = setup.content
    options: dict[str, Any] = {
        "name": run.record.system,
        "test": test,
        "source-lang": content.source,
        "target-lang": content.target,
        **references(setup.recipe, setup.raw, test),
        **content.evaluation.score,
    }
    if content.evaluation.main:
        options["main"] = content.evaluation.main
    if (found := pipeline_of(setup, run)) and found.config.lowercase:
        options["lowercase"] = True
    return options


def statistics(setup: Workspace, run: Run, test: str) -> tuple[str, str]:
    """Return the statistics of the main score for each sentence, and the score's signature."""
    from fairseq_posattn.scoring.score import main_statistics

    return main_statistics(main_score_of(setup, run, test))


def signature(setup: Workspace, run: Run, test: str) -> str:
    from fairseq_posattn.scoring.score import main_signature

    return main_signature(main_score_of(setup, run, test))


def main_score_of(setup: Workspace, run: Run, test: str) -> ScoreRequest:
    """Return a request for only the main score of a run, as stored in RECIPE/study."""
    options = {**shared_options(setup, run, test), **ONLY_MAIN}
    return request_with({**options, "hypotheses": [run.scored(test)]})


def files_of(setup: Workspace, run: Run, test: str) -> dict[str, Any]:
    """Return the options of posattn score that refer to files of a run, such as its logs."""
    found = pipeline_of(setup, run)
    options: dict[str, Any] = {
        "pieces": run.folder / f"{test}.src",
        "separator": found.separator if found else SEPARATOR,
        "train-log": logs(run.folder, "train*.log", "train.log"),
        "generate-log": logs(run.folder, f"{test}.shard*", f"{test}.shard0"),
    }
    if setup.settings.with_parsing:
        name = f"{test}.parsed.shard"
        options["parsing-log"] = logs(run.folder, f"{name}*", f"{name}0")
    if setup.settings.examples:
        options["examples"] = run.folder / f"{test}.examples.json"
        options["heads"] = run.folder / f"{test}.heads.json"
    return options


def check_scoring(setup: Workspace) -> None:
    """Raise an InputError if BLEU cannot be computed for the target language.

    For example, its tokeniser may not be installed. This is checked before training starts.
    """
    from fairseq_posattn.scoring.metrics.scores import Scoring

    target, tokenize = setup.content.target, setup.content.evaluation.score.get("tokenize")
    Scoring([], ScoreRequest(hypotheses=[], target_lang=target, tokenize=tokenize)).bleu()


def labels_of(setup: Workspace, test: str) -> dict[str, Path]:
    """Return the label files of a test set, by name."""
    names = setup.content.evaluation.subsets.get(test, [])
    return {name: setup.raw / f"{test}.{name}" for name in names}


def check_labels(setup: Workspace) -> None:
    """Raise an InputError if the label files do not match the test sets.

    The error is also raised if recipe.toml contains published scores for a label that does not
    occur.
    """
    from fairseq_posattn.scoring.metrics.buckets import read_labels
    from fairseq_posattn.scoring.metrics.texts import read_text
    from fairseq_posattn.scoring.score_record import MEAN

    known = {MEAN}
    for test in setup.content.corpus.tests:
        for name, path in labels_of(setup, test).items():
            text = read_text(str(setup.raw / f"{test}.{setup.content.source}"))
            known.update(read_labels([f"{name}={path}"], text)[name])
    for title, figures in setup.content.evaluation.published.items():
        if others := [label for label in figures if label not in known]:
            raise InputError(
                f"{setup.recipe.folder / FILE}: evaluation.published.{title} contains "
                f"'{others[0]}', but no sentence has this label; {REMEDY}"
            )


def pipeline_of(setup: Workspace, run: Run) -> TextPipeline | None:
    """Return the text pipeline of the data that a run is tested with, if it is stored there."""
    data = setup.shards_of(run.record.test_trees)[0]
    return TextPipeline.load(data) if pipeline.exists(data) else None


def logs(folder: Path, pattern: str, name: str) -> list[Path]:
    """Return the logs that match a pattern or, if there are none, the path of the log `name`.

    In a dry run, the logs do not exist yet.
    """
    return sorted(folder.glob(pattern)) or [folder / name]


def is_file(value: object) -> bool:
    return any(isinstance(one, Path) for one in (value if isinstance(value, list) else [value]))
