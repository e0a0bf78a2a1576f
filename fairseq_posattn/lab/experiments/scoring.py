"""Score the runs of a model together, alone or against the runs of a baseline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.lab.experiments.commands import python
from fairseq_posattn.lab.experiments.corpora import references
from fairseq_posattn.lab.experiments.recipe import arguments
from fairseq_posattn.lab.experiments.runs import KEY_DIGITS, Run, files_in
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace
from fairseq_posattn.text import pipeline
from fairseq_posattn.text.pipeline import TextPipeline
from fairseq_posattn.trees.projection import SEPARATOR
from fairseq_posattn.work.made import Steps


def score(
    place: Workplace,
    runs: Sequence[Run],
    baseline: Sequence[Run],
    test: str,
    plan: Plan,
) -> Path:
    """Write the scores of a test set into results, once, and return the file.

    Its name ends in a checksum of the runs and of all choices, so other choices make another file.
    """
    options = options_of(place, runs, baseline, test, plan)
    hypotheses = [run.folder / f"{test}.hyp" for run in runs]
    made_of = [plan.last, *(run.folder.name for run in [*runs, *baseline])]
    made_of += arguments({k: v for k, v in options.items() if not is_file(v)})
    made_of += arguments(place.content.evaluation.score)
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:KEY_DIGITS]
    against = f".against.{baseline[0].record.system}" if baseline else ""
    out = place.work / "results" / f"{runs[0].record.system}.{test}{against}.{key}.json"
    words = arguments({**options, "train-counts": place.work / "train_counts.json"})
    command = python("fairseq_posattn.cli.score", *hypotheses, *words, "--json", out)
    if place.shell.dry_run:
        place.shell.run(command)
        return out
    log = runs[0].folder / "evaluate.log"
    files = files_in(arguments(options))
    steps = Steps(place.work / "results", lambda text: tell(place, test, text))
    steps.do(out.stem, made_of, [*hypotheses, *files], [out], lambda: place.shell.run(command, log))
    place.board.finish(f"scores of {test}")
    return out


def tell(place: Workplace, test: str, text: str) -> None:
    """Show what is done about a test set."""
    place.board.show(f"scores of {test}", text, new=True)


def options_of(
    place: Workplace, runs: Sequence[Run], baseline: Sequence[Run], test: str, plan: Plan
) -> dict[str, Any]:
    """Return the options of posattn-score; logs and examples are those of the first run."""
    first, content, subset = runs[0].folder, place.content, place.subsets(plan)[test]
    options: dict[str, Any] = {
        "name": runs[0].record.system,
        "test": test,
        "source-lang": content.source,
        "target-lang": content.target,
        **references(place.recipe, place.raw, test),
        "pieces": first / f"{test}.src",
        "separator": separator(place, runs[0]),
        "train-log": logs(first, "train*.log", "train.log"),
        "generate-log": logs(first, f"{test}.shard*", f"{test}.shard0"),
        "train-target": place.raw / f"{content.corpus.train}.{content.target}",
        **content.evaluation.score,
    }
    words, trees = place.pieces / f"{subset}.words", place.pieces / f"{subset}.conllu.xz"
    if place.shell.dry_run or words.exists():
        options |= {"source": words, "trees": trees}
    else:  # data without a parser have no words of their own
        options["source"] = place.raw / f"{test}.{content.source}"
    if is_lower_case(place, runs[0]):
        options["lowercase"] = True
    if plan.with_parsing:
        options["parsing-log"] = logs(first, f"{test}.parsed.shard*", f"{test}.parsed.shard0")
    if plan.examples:
        options["examples"] = first / f"{test}.examples.json"
        options["heads"] = first / f"{test}.heads.json"
    if baseline:
        options["baseline"] = [run.folder / f"{test}.hyp" for run in baseline]
        options["baseline-name"] = baseline[0].record.system
    return options


def check_scoring(place: Workplace) -> None:
    """Refuse a target language that cannot be scored here, before hours of other work."""
    if place.shell.dry_run:
        return
    from fairseq_posattn.lab.scoring.metrics.scores import Settings

    chosen = place.content.evaluation.score
    Settings(place.content.target, chosen.get("tokenize")).bleu()


def is_lower_case(place: Workplace, run: Run) -> bool:
    """Return whether the data have small letters only, so that scores must not count others."""
    data = place.first_shard(run.record.trees)
    return pipeline.exists(data) and TextPipeline.load(data).config.lowercase


def separator(place: Workplace, run: Run) -> str:
    """Return the mark in the pieces of the data."""
    data = place.first_shard(run.record.trees)
    return TextPipeline.load(data).separator if pipeline.exists(data) else SEPARATOR


def logs(folder: Path, pattern: str, name: str) -> list[Path]:
    """Return the logs that match a pattern, or the one that there will be."""
    return sorted(folder.glob(pattern)) or [folder / name]


def is_file(value: object) -> bool:
    """Return whether the value of an option names files."""
    return any(isinstance(one, Path) for one in (value if isinstance(value, list) else [value]))
