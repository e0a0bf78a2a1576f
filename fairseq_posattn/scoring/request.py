"""The options of posattn score, which can also be given in Python."""

from dataclasses import dataclass
from typing import ClassVar

from fairseq_posattn.files.records import at_least, between, one_of, option
from fairseq_posattn.scoring.score_record import MAIN_SCORES
from fairseq_posattn.trees.projection import SEPARATOR

NAMES, SCORING, WORDS = "names", "scoring", "F1 of words"
PARTS = "main score on parts of the test set"
FILES = "results to copy into the JSON"
TREES = "FILE.conllu"
TOKENIZERS = (  # those of sacrebleu, which is not imported, because a dry run does not require it
    *("13a", "char", "flores101", "flores200", "intl", "ja-mecab", "ko-mecab", "none"),
    *("spBLEU-1K", "spm", "zh"),
)


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """A request to score the translations of a test set; each field is an option of posattn score.

    Example:

        ScoreRequest(hypotheses=["test.hyp"], references=["test.de"], target_lang="de")
    """

    command: ClassVar = "posattn score"
    hypotheses: list[str] = option(
        "detokenised translation to score, one sentence per line; several files are treated as "
        "runs of one system with different random seeds",
        metavar="HYPOTHESES",
    )
    json: str | None = option(
        "write all scores to this file, for posattn report", None, metavar="OUT"
    )
    references: list[str] | None = option(
        "one or several reference texts", None, metavar="FILE", either="references", required=True
    )
    sgm: list[str] | None = option(
        "references in NIST's format", None, metavar="FILE", either="references", required=True
    )
    sgm_source: str | None = option(
        "with --sgm: file that defines the order of the segments", None, metavar="FILE"
    )
    name: str = option("name of the system in the report (default: the file name)", "", group=NAMES)
    test: str = option("name of the test set in the report", "")
    source_lang: str = option("source language in the report", "", metavar="LANG")
    target_lang: str = option(
        "target language, such as de, zh_CN or chinese; selects sacrebleu's tokeniser, and adds "
        "tokenised BLEU if the language separates words by spaces",
        "",
        metavar="LANG",
        flag=("--target-lang", "-t"),
    )
    tokenize: str | None = option(
        "sacrebleu's tokeniser (default: that of the target language, or 13a)",
        None,
        one_of(*TOKENIZERS),
        group=SCORING,
    )
    lowercase: bool = option("ignore case", False)
    nist: bool = option("compute NIST BLEU (default if there are several references)", False)
    exact: bool = option(
        "compute exact match: the percentage of sentences that equal a reference", False
    )
    main: str | None = option(
        "main score, for parts of the test set and for tables (default: BLEU)",
        None,
        one_of(*MAIN_SCORES),
    )
    only_main: bool = option(
        "compute only the main score, which takes seconds instead of minutes", False
    )
    statistics: bool = option(
        "read statistics of the main score for each sentence, as stored by posattn recipe table "
        "--keep, instead of translations; requires --only-main",
        False,
    )
    baseline: list[str] = option(
        "translation by the baseline; several files are treated as runs of the baseline",
        [],
        metavar="FILE",
    )
    baseline_name: str = option(
        "name of the baseline in the report (default: the file name)", "", metavar="NAME"
    )
    segment_scores: list[str] = option(
        "sentence scores of another metric, one number per line, such as COMET=comet.txt; with "
        "several runs, give one file for each, in the same order",
        [],
        metavar="NAME=FILE",
    )
    baseline_segment_scores: list[str] = option(
        "sentence scores for the baseline's translations", [], metavar="NAME=FILE"
    )
    lower_is_better: list[str] = option(
        "names of segment scores for which lower is better, such as MetricX", [], metavar="NAME"
    )
    samples: int | None = option(
        "number of samples for the bootstrap and for approximate randomisation "
        "(default: 1000 and 10000)",
        None,
        between(1, 1_000_000),
    )
    sentences: int = option(
        "with --baseline: store the N sentences with the largest gain and the N with the largest "
        "loss in chrF2 (default: %(default)s)",
        5,
        at_least(0),
    )
    source: str | None = option(
        "split by sentence length in this file, the tokenised source",
        None,
        group=PARTS,
        metavar="FILE",
    )
    trees: str | None = option(
        "split by depth and by longest dependency of the source trees in this file (.conllu, .gz, "
        ".xz or .zst)",
        None,
        metavar=TREES,
    )
    pieces: str | None = option(
        "split by the number of words with several pieces in this file, the segmented source",
        None,
        metavar="FILE",
    )
    separator: str = option(
        "with --pieces: marker of subword units, @@ or ▁ (default: %(default)s)", SEPARATOR
    )
    subsets: list[str] = option(
        "split by the labels in a file, one per line, such as category=FILE; also computes the "
        "mean over the labels",
        [],
        metavar="NAME=FILE",
    )
    train_target: str | None = option(
        "group words by their frequency in this file, the target side of the training data",
        None,
        group=WORDS,
        metavar="FILE",
    )
    train_counts: str | None = option(
        "with --train-target: cache the word counts in this file", None, metavar="FILE.json"
    )
    reference_trees: str | None = option(
        "group words by part of speech and relation in these trees of the (first) reference, "
        "written by posattn parse",
        None,
        metavar=TREES,
    )
    hypothesis_trees: list[str] = option(
        "with --reference-trees: trees of the translation, one file per run", [], metavar=TREES
    )
    generate_log: list[str] | None = option(
        "logs of fairseq-generate (all shards of one run), for the translation speed",
        None,
        group=FILES,
        metavar="FILE",
    )
    parsing_log: list[str] | None = option(
        "logs of fairseq-generate for a run that parses the source, for the translation speed",
        None,
        metavar="FILE",
    )
    train_log: list[str] | None = option(
        "logs of fairseq-train (from all machines of one run), for losses and speed",
        None,
        metavar="FILE",
    )
    examples: str | None = option("file written by posattn examples", None, metavar="FILE")
    heads: str | None = option("file written by posattn heads", None, metavar="FILE")
