"""Score a translation of a test set, and compare it with a baseline.

posattn-score HYPOTHESES --references REF --target-lang de --baseline BASE --json OUT
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.code_version import code_version
from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.lab.scoring.example_record import read_examples
from fairseq_posattn.lab.scoring.fairseq_logs import logs, training_log
from fairseq_posattn.lab.scoring.head_record import read_heads
from fairseq_posattn.lab.scoring.metrics import buckets, ngrams, words
from fairseq_posattn.lab.scoring.metrics.score_texts import (
    Texts,
    check_count,
    read_references,
    read_texts,
    warn_of_script,
    warn_of_spacing,
)
from fairseq_posattn.lab.scoring.metrics.scores import (
    LOWER_IS_BETTER,
    Scoring,
    Settings,
    Translations,
)
from fairseq_posattn.lab.scoring.metrics.segment_scores import SegmentScores
from fairseq_posattn.lab.scoring.metrics.sentences import most_different
from fairseq_posattn.lab.scoring.metrics.significance import Samples, after_holm, compared
from fairseq_posattn.lab.scoring.score_record import (
    VERSION,
    Baseline,
    Ngrams,
    ScoredSystem,
    Speed,
)


def scored_system(args: argparse.Namespace) -> ScoredSystem:
    """Return everything that the command line asks for, as it stands in the JSON."""
    refuse_scores_of_no_baseline(args)
    extras = read_extras(args)
    texts = read_texts(args)
    given = read_references(args, texts)
    warn_of_spacing(texts, given)
    references = [text.lines for text in given]
    samples = Samples(args.samples, args.samples) if args.samples else Samples()
    drawing = samples.bootstrap, samples.seed
    settings = Settings(args.target_lang, args.tokenize, args.lowercase, args.nist)
    measures = read_measures(args, texts)
    scoring = Scoring(references, settings)
    warn_of_script(given, scoring)
    system = Translations(scoring, [text.lines for text in texts.system])
    orders = orders_of(system)
    segments = SegmentScores.read(args, texts)
    return ScoredSystem(
        version=VERSION,
        code=code_version(),
        system=writable(args.name or Path(args.hypotheses[0]).name),
        test=writable(args.test),
        source=writable(args.source_lang),
        target=writable(args.target_lang),
        sentences=len(references[0]),
        references=len(references),
        runs=several(system),
        scores={**system.scores(*drawing), **segments.scores(samples)},
        ngrams=orders,
        buckets={
            name: buckets.bleu_by(
                values, ranges, scoring.metrics["BLEU"], system.tables["BLEU"], *drawing
            )
            for name, (values, ranges) in measures.items()
        },
        words=words.read_words(args, texts, scoring, *drawing) or ABSENT,
        baseline=(
            against_baseline(args, system, texts, orders, segments, samples)
            if args.baseline
            else ABSENT
        ),
        **extras,
    )


def refuse_scores_of_no_baseline(args: argparse.Namespace) -> None:
    """Refuse scores of a baseline that is not there."""
    if args.baseline_segment_scores and not args.baseline:
        raise InputError("--baseline-segment-scores belongs to --baseline; name its translations")


def several(system: Translations) -> int:
    """Return how many runs there are, or ABSENT for one."""
    return len(system.runs) if len(system.runs) > 1 else ABSENT


def orders_of(system: Translations) -> list[Ngrams]:
    """Return BLEU and precision for each order of n-grams, the means over the runs."""
    scoring = system.scoring
    return ngrams.means(
        [ngrams.by_order(run, scoring.references, scoring.settings) for run in system.runs]
    )


def writable(name: str) -> str:
    """Return a name from the command line, whose bytes need not be UTF-8, as a file can hold it."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def read_measures(args: argparse.Namespace, texts: Texts) -> dict[str, tuple]:
    """Return for each name of buckets the measure of each source sentence and the ranges."""
    found: dict[str, tuple] = {}
    if texts.source:
        found["length"] = buckets.lengths(texts.source.lines), buckets.LENGTHS
    if args.trees:
        found["depth"] = buckets.tree_depths(args.trees), buckets.DEPTHS
        count = len(found["depth"][0])
        check_count(texts.system[0], args.trees, count, "sentences")
    if texts.pieces:
        split = buckets.split_words(texts.pieces, args.separator)
        found["split_words"] = split, buckets.SPLIT_WORDS
    return found


def against_baseline(
    args: argparse.Namespace,
    system: Translations,
    texts: Texts,
    ours: Sequence[Ngrams],
    segments: SegmentScores,
    samples: Samples,
) -> Baseline:
    """Return how the system differs from the baseline."""
    baseline = Translations(system.scoring, [text.lines for text in texts.baseline])
    return Baseline(
        system=writable(args.baseline_name or Path(args.baseline[0]).name),
        runs=several(baseline),
        significance=str(samples),
        scores=after_holm(
            {**compared(baseline, system, samples), **segments.compared(samples)},
            {*LOWER_IS_BETTER, *segments.lower_is_better},
        ),
        ngrams=ngrams.gaps(ours, orders_of(baseline)),
        sentences=most_different(
            baseline, system, texts.source and texts.source.lines, args.sentences
        ),
    )


def read_extras(args: argparse.Namespace) -> dict[str, Any]:
    """Return what other files, if they are named, add to the JSON."""
    found: dict[str, Any] = {}
    if args.generate_log or args.parsing_log:
        found["speed"] = speed(args)
    if args.train_log:
        found["training"] = training_log.training(args.train_log)
    if args.examples:
        found["examples"] = read_examples(args.examples)
    if args.heads:
        found["heads"] = read_heads(args.heads)
    return found


def speed(args: argparse.Namespace) -> Speed:
    """Return the speeds that the logs of fairseq-generate tell."""
    named = {"translation": args.generate_log, "with_parsing": args.parsing_log}
    return Speed(**{name: logs.speed(paths) for name, paths in named.items() if paths})
