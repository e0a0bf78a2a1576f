"""Scores a translation of a test set, and says where it differs from a baseline.

posattn-score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.command_line import run
from fairseq_posattn.evaluation import buckets, logs, ngrams, table, training_log
from fairseq_posattn.evaluation.report_systems import read_examples
from fairseq_posattn.evaluation.score_options import parse_arguments
from fairseq_posattn.evaluation.score_texts import (
    check_count,
    read_references,
    read_texts,
    warn_of_spacing,
)
from fairseq_posattn.evaluation.scores import Scoring, Settings
from fairseq_posattn.evaluation.significance import Samples, compared
from fairseq_posattn.evaluation.spacing import Text
from fairseq_posattn.files import write_json

VERSION = 1


def scored_system(args: argparse.Namespace) -> dict:
    """All that is asked for, as it stands in the JSON."""
    extras = {**optional_speed(args), **optional_training(args), **optional_examples(args)}
    texts = read_texts(args)
    references = read_references(args, texts)
    warn_of_spacing(texts, references)
    hypotheses, references = texts["hypotheses"].lines, [text.lines for text in references]
    settings = Settings(args.target_lang, args.tokenize, args.lowercase, args.nist)
    measures = read_measures(args, texts)
    scoring = Scoring(references, settings)
    result = {
        "version": VERSION,
        "system": writable(args.name or Path(args.hypotheses).name),
        "test": writable(args.test),
        "source": writable(args.source_lang),
        "target": writable(args.target_lang),
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
        result["baseline"] = against_baseline(args, scoring, texts, result["ngrams"])
    return {**result, **extras}


def writable(name: str) -> str:
    """A name from the command line, whose bytes need not be UTF-8, as a file can hold it."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def read_measures(args: argparse.Namespace, texts: dict[str, Text]) -> dict[str, tuple]:
    """Name -> the measure of each source sentence, and the ranges of its buckets."""
    found = {}
    if args.source:
        found["length"] = buckets.lengths(texts["source"].lines), buckets.LENGTHS
    if args.trees:
        found["depth"] = buckets.tree_depths(args.trees), buckets.DEPTHS
        count = len(found["depth"][0])
        check_count(texts["hypotheses"], args.trees, count, "sentences")
    if args.pieces:
        split = buckets.split_words(texts["pieces"], args.separator)
        found["split_words"] = split, buckets.SPLIT_WORDS
    return found


def against_baseline(
    args: argparse.Namespace, scoring: Scoring, texts: dict[str, Text], ours: Sequence[dict]
) -> dict:
    hypotheses, baseline = texts["hypotheses"].lines, texts["baseline"].lines
    theirs = ngrams.by_order(baseline, scoring.references, scoring.settings)
    samples = Samples(args.samples, args.samples) if args.samples else Samples()
    return {
        "system": writable(args.baseline_name or Path(args.baseline).name),
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
    return {"examples": read_examples(args.examples)}


def score() -> None:
    args = parse_arguments()
    result = scored_system(args)
    if args.json:
        write_json(args.json, result, ensure_ascii=False, indent=1, allow_nan=False)
    print("\n".join(table.lines(result)))


def main() -> None:
    run(score)


if __name__ == "__main__":
    main()
