"""Make one system of several files, which hold its runs with several seeds on one test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

from fairseq_posattn.errors import InputError

Document = dict[str, Any]


def one_system(runs: Sequence[Document], paths: Sequence[str]) -> Document:
    """Return the document of the system: means over the runs, with their deviations.

    Examples, heads, course of the training and architecture are those of the first run. Each run
    was compared with a baseline alone. That says nothing of new trainings, so no p values are left.
    """
    first = runs[0]
    refuse_mixed(runs, paths)
    found = {**first, "runs": len(runs), "scores": mean_scores(runs, paths)}
    joining: dict[str, Callable[[Any], Any]]
    joining = {"ngrams": mean_ngrams, "buckets": mean_buckets, "words": mean_words}
    for key, join in {**joining, "speed": mean_speed}.items():
        if key in first and all(key in run for run in runs):
            found[key] = join([run[key] for run in runs])
    if "baseline" in first:
        found["baseline"] = mean_differences(runs, paths)
    return found


def refuse_mixed(runs: Sequence[Document], paths: Sequence[str]) -> None:
    """Refuse files that hold several runs already, whose means cannot be weighed or told apart."""
    for run, path in zip(runs, paths, strict=True):
        if run.get("runs", 1) > 1:
            raise InputError(
                f"{path}: the file holds {run['runs']} runs of '{run['system']}', of which there "
                "are other files; score all of them together, or name this file alone"
            )


def mean_scores(runs: Sequence[Document], paths: Sequence[str]) -> dict[str, Document]:
    """Return the scores that all runs have; they must have been computed in the same way."""
    found = {}
    for name, score in runs[0]["scores"].items():
        others = [run["scores"].get(name) for run in runs]
        if None in others:
            continue
        for other, path in zip(others, paths, strict=True):
            if other["signature"] != score["signature"]:
                raise InputError(
                    f"{path}: {name} has the signature {other['signature']}, but that of the same "
                    f"system in {paths[0]} is {score['signature']}; score both in the same way"
                )
        values = [value for other in others for value in other.get("runs", [other["score"]])]
        kept = {key: score[key] for key in ("signature", "lower_is_better") if key in score}
        found[name] = {**kept, "score": mean(values), "deviation": stdev(values), "runs": values}
    return found


def mean_ngrams(runs: Sequence[list[Document]]) -> list[Document]:
    """Return the means for each order of n-grams."""
    return [means(orders, ("bleu", "precision")) for orders in zip(*runs, strict=False)]


def mean_buckets(runs: Sequence[dict[str, list[Document]]]) -> dict[str, list[Document]]:
    """Return the means for each group of sentences that all runs have."""
    found = {}
    for kind, groups in runs[0].items():
        ends = [{(b["from"], b["to"]): b for b in run.get(kind, [])} for run in runs]
        found[kind] = [
            means([of_run[key] for of_run in ends], ("bleu",), drop=("interval",))
            for key in ((b["from"], b["to"]) for b in groups)
            if all(key in of_run for of_run in ends)
        ]
    return found


def mean_words(runs: Sequence[dict[str, list[Document]]]) -> dict[str, list[Document]]:
    """Return the means for each group of words that all runs have."""
    found = {}
    for kind, groups in runs[0].items():
        named = [{group["name"]: group for group in run.get(kind, [])} for run in runs]
        found[kind] = [
            means([of_run[name] for of_run in named], ("precision", "recall", "f1"), ("interval",))
            for name in (group["name"] for group in groups)
            if all(name in of_run for of_run in named)
        ]
    return found


def mean_speed(runs: Sequence[dict[str, Document]]) -> dict[str, Document]:
    """Return the mean speed of each kind of translation that all runs have."""
    kinds = [kind for kind in runs[0] if all(kind in run for run in runs)]
    return {
        kind: {"sentences_per_second": mean(run[kind]["sentences_per_second"] for run in runs)}
        for kind in kinds
    }


def mean_differences(runs: Sequence[Document], paths: Sequence[str]) -> Document:
    """Return the mean differences to a baseline, which must be the same for all runs."""
    first = runs[0]["baseline"]
    for run, path in zip(runs, paths, strict=True):
        if run.get("baseline", {}).get("system") != first["system"]:
            raise InputError(
                f"{path}: the baseline is not '{first['system']}', as it is for the same system in "
                f"{paths[0]}; compare all runs with one baseline"
            )
    compared = [run["baseline"].get("scores", {}) for run in runs]
    names = [name for name in compared[0] if all(name in scores for scores in compared)]
    found = {"system": first["system"], "scores": {}}
    for name in names:
        difference = mean(scores[name]["difference"] for scores in compared)
        found["scores"][name] = {"difference": difference, "mark": ""}
    if all("ngrams" in run["baseline"] for run in runs):
        found["ngrams"] = mean_ngrams([run["baseline"]["ngrams"] for run in runs])
    return found


def means(documents: Sequence[Document], keys: Sequence[str], drop: Sequence[str] = ()) -> Document:
    """Return the first document with the means of some of its numbers."""
    kept = {key: value for key, value in documents[0].items() if key not in drop}
    return {**kept, **{key: mean(one[key] for one in documents) for key in keys}}
