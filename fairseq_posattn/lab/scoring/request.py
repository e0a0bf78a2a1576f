"""Say what is to be scored, from Python or on the command line of posattn score."""

from __future__ import annotations

from dataclasses import dataclass

from sacrebleu.metrics import BLEU

from fairseq_posattn.io.argument_types import not_negative, option
from fairseq_posattn.io.argument_types import samples as samples_type
from fairseq_posattn.lab.scoring.score_record import MAIN_SCORES
from fairseq_posattn.trees.projection import SEPARATOR

NAMES, SCORING, WORDS = "names", "scoring", "F1 of words"
PARTS = "the main score by kinds of sentences"
FILES = "what the JSON takes over from other files"
TREES = "FILE.conllu"


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """This is a request to score the translations of a test set; each field is an option of
    posattn score."""

    hypotheses: list[str] = option(
        "score this translation, which is detokenised and has one sentence a line; several files "
        "are the translations by the runs of one system, trained with several seeds",
        metavar="HYPOTHESES",
    )
    references: list[str] | None = option("compare with one or several texts", None, "", "FILE")
    sgm: list[str] | None = option("compare with references in NIST's format", None, "", "FILE")
    sgm_source: str | None = option(
        "take the order of the segments from this file", None, "", "FILE"
    )
    name: str = option("name the system in the report (default: the name of the file)", "", NAMES)
    test: str = option("name the test set in the report", "", NAMES)
    source_lang: str = option("name the source language in the report", "", NAMES, "LANG")
    target_lang: str = option(
        "the translation is in this language, such as de, zh_CN or chinese: it decides how "
        "sacrebleu tokenises, and adds tokenised BLEU where there are spaces between words",
        *("", NAMES, "LANG"),
    )
    tokenize: str | None = option(
        "choose a tokeniser of sacrebleu (default: that of the target language, or 13a)",
        *(None, SCORING),
        choices=sorted(BLEU.TOKENIZERS),
    )
    lowercase: bool = option("ignore the case of letters", False, SCORING)
    nist: bool = option("compute NIST BLEU, which several references always have", False, SCORING)
    exact: bool = option(
        "compute exact match, the share of sentences that equal a reference, in percent",
        *(False, SCORING),
    )
    main: str | None = option(
        "choose the score of kinds of sentences and of tables (default: BLEU)",
        *(None, SCORING),
        choices=MAIN_SCORES,
    )
    only_main: bool = option(
        "compute this score alone, which takes seconds where all take minutes",
        *(False, SCORING),
    )
    baseline: list[str] = option(
        "compare with this translation by another system, or with those by its runs",
        *([], SCORING, "FILE"),
    )
    baseline_name: str = option(
        "name the other system in the report (default: the name of the file)", "", SCORING, "NAME"
    )
    segment_scores: list[str] = option(
        "take over numbers that another program gave the sentences, one a line, such as "
        "COMET=comet.txt; with several runs a file for each, in their order",
        *([], SCORING, "NAME=FILE"),
    )
    baseline_segment_scores: list[str] = option(
        "take over such numbers of the baseline, too", [], SCORING, "NAME=FILE"
    )
    lower_is_better: list[str] = option(
        "say of which segment scores the smaller ones are better, such as those of MetricX",
        *([], SCORING, "NAME"),
    )
    samples: int | None = option(
        "draw N samples in the bootstrap and in randomisation "
        "(default: 1000 in the bootstrap, 10000 in randomisation)",
        None,
        SCORING,
        type=samples_type,
    )
    sentences: int = option(
        "with --baseline: keep the N sentences that are translated better by most, and the N that "
        "are translated worse, by chrF2 (default: %(default)s)",
        5,
        SCORING,
        type=not_negative,
    )
    source: str | None = option("split by length, from these words", None, PARTS, "FILE")
    trees: str | None = option(
        "split by depth and by longest dependency, from these trees (.conllu, .gz, .xz or .zst)",
        *(None, PARTS, TREES),
    )
    pieces: str | None = option(
        "split by number of split words, from these pieces", None, PARTS, "FILE"
    )
    separator: str = option(
        "name the mark in the pieces, @@ or ▁ (default: %(default)s)", SEPARATOR, PARTS
    )
    subsets: list[str] = option(
        "split by the labels in a file, one a line, such as category=FILE; the mean over the "
        "labels is computed, too",
        *([], PARTS, "NAME=FILE"),
    )
    train_target: str | None = option(
        "compute F1 of words by how often this text of the training has them", None, WORDS, "FILE"
    )
    train_counts: str | None = option(
        "with --train-target: keep its counts here, so that they are made once only",
        *(None, WORDS, "FILE.json"),
    )
    reference_trees: str | None = option(
        "compute F1 of words by their part of speech and relation in these trees of the (first) "
        "reference; posattn parse makes them",
        *(None, WORDS, TREES),
    )
    hypothesis_trees: list[str] = option(
        "read the same of the translation from these trees, a file for each run", [], WORDS, TREES
    )
    generate_log: list[str] | None = option(
        "read the speed from logs of fairseq-generate, the shards of one run", None, FILES, "FILE"
    )
    parsing_log: list[str] | None = option(
        "read the same from a run that parsed while it translated", None, FILES, "FILE"
    )
    train_log: list[str] | None = option(
        "read the course of the training from logs of fairseq-train, of all its machines",
        *(None, FILES, "FILE"),
    )
    examples: str | None = option(
        "take over the examples that posattn examples wrote", None, FILES, "FILE"
    )
    heads: str | None = option(
        "take over what posattn heads wrote about attention heads", None, FILES, "FILE"
    )
