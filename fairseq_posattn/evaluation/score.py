"""Scores a translation of a test set, and says where it differs from a baseline.

posattn-score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.command_line import run
from fairseq_posattn.evaluation import buckets, logs, ngrams, sgm, table, training_log
from fairseq_posattn.evaluation.score_options import parse_arguments
from fairseq_posattn.evaluation.scores import Scoring, Settings
from fairseq_posattn.evaluation.significance import Samples, compared
from fairseq_posattn.files import (
    InputError,
    read_json,
    read_lines,
    same_number_of_lines,
    written_whole,
)

VERSION = 1


def scored_system(args: argparse.Namespace) -> dict:
    """All that is asked for, as it stands in the JSON."""
    check_numbers_of_lines(args)
    extras = {**optional_speed(args), **optional_training(args), **optional_examples(args)}
    hypotheses = list(read_lines(args.hypotheses))
    references = read_references(args, len(hypotheses))
    settings = Settings(args.target_lang, args.tokenize, args.lowercase, args.nist)
    measures = read_measures(args, len(hypotheses))
    scoring = Scoring(references, settings)
    result = {
        "version": VERSION,
        "system": args.name or Path(args.hypotheses).name,
        "test": args.test,
        "source": args.source_lang,
        "target": args.target_lang,
        "sentences": len(hypotheses),
        "references": len(references),
        "scores": scoring.scores(hypotheses),
        "ngrams": ngrams.by_order(hypotheses, references, settings),
        "buckets": {
            name: buckets.bleu_by(values, ranges, hypotheses, references, settings)
            for name, (values, ranges) in measures.items()
        },
    }
    if args.baseline:
        result["baseline"] = against_baseline(args, scoring, hypotheses, result["ngrams"])
    return {**result, **extras}


# what is compared


def check_numbers_of_lines(args: argparse.Namespace) -> None:
    others = (*(args.references or ()), args.baseline, args.source, args.pieces)
    if not same_number_of_lines([args.hypotheses, *filter(None, others)]):
        raise InputError(f"{args.hypotheses}: empty; nothing to score")


def read_references(args: argparse.Namespace, sentences: int) -> list[list[str]]:
    """A list for each reference, in the order of the hypotheses."""
    if args.references:
        if args.sgm_source:
            raise InputError("--sgm-source gives the order of --sgm; it says nothing of plain text")
        return [list(read_lines(path)) for path in args.references]
    sets = [one for path in args.sgm for one in sgm.read_sets(path)]
    order = sgm.read_set(args.sgm_source) if args.sgm_source else sets[0]
    check_count(args.hypotheses, sentences, order.path, len(order.texts), "segments")
    return sgm.aligned(sets, order)


def check_count(path: str, lines: int, other: str, count: int, what: str) -> None:
    if lines != count:
        raise InputError(
            f"{path} has {lines} lines, but {other} has {count} {what}; "
            "make them from the same sentences"
        )


def read_measures(args: argparse.Namespace, sentences: int) -> dict[str, tuple]:
    """Name -> the measure of each source sentence, and the ranges of its buckets."""
    found = {}
    if args.source:
        found["length"] = buckets.lengths(args.source), buckets.LENGTHS
    if args.trees:
        found["depth"] = buckets.tree_depths(args.trees), buckets.DEPTHS
        count = len(found["depth"][0])
        check_count(args.hypotheses, sentences, args.trees, count, "sentences")
    if args.pieces:
        split = buckets.split_words(args.pieces, args.separator)
        found["split_words"] = split, buckets.SPLIT_WORDS
    return found


def against_baseline(
    args: argparse.Namespace, scoring: Scoring, hypotheses: Sequence[str], ours: Sequence[dict]
) -> dict:
    baseline = list(read_lines(args.baseline))
    theirs = ngrams.by_order(baseline, scoring.references, scoring.settings)
    samples = Samples(args.samples, args.samples) if args.samples else Samples()
    return {
        "system": args.baseline_name or Path(args.baseline).name,
        "significance": str(samples),
        "scores": compared(scoring.metrics, baseline, hypotheses, samples),
        "ngrams": ngrams.gaps(ours, theirs),
    }


# what is taken over from other files


def optional_speed(args: argparse.Namespace) -> dict:
    named = {"translation": args.generate_log, "with_parsing": args.parsing_log}
    found = {name: logs.speed(paths) for name, paths in named.items() if paths}
    return {"speed": found} if found else {}


def optional_training(args: argparse.Namespace) -> dict:
    return {"training": training_log.training(args.train_log)} if args.train_log else {}


def optional_examples(args: argparse.Namespace) -> dict:
    if not args.examples:
        return {}
    found = read_json(args.examples, "make it again with posattn-examples")
    if isinstance(found, dict):
        found = found.get("examples")
    if not isinstance(found, list):
        raise InputError(f"{args.examples}: no list of examples; make it with posattn-examples")
    return {"examples": found}


def score() -> None:
    args = parse_arguments()
    result = scored_system(args)
    if args.json:
        with written_whole(args.json) as file:
            json.dump(result, file, ensure_ascii=False, indent=1, allow_nan=False)
            file.write("\n")
    print("\n".join(table.lines(result)))


def main() -> None:
    run(score)


if __name__ == "__main__":
    main()
