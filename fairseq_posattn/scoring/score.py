"""Score the translations of a test set by one or several runs of a system.

    from fairseq_posattn.scoring.score import ScoreRequest, score

    score(ScoreRequest(hypotheses=["test.hyp"], references=["test.de"])).scores["BLEU"].score

`write_scores` also writes the JSON that posattn report reads.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import write_json
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import ABSENT, as_document
from fairseq_posattn.files.version import code_version
from fairseq_posattn.scoring import training_log
from fairseq_posattn.scoring.generate_log import speed
from fairseq_posattn.scoring.inspection_record import Example, read_examples, read_heads
from fairseq_posattn.scoring.metrics import buckets, ngrams, words
from fairseq_posattn.scoring.metrics.comparison import (
    compared,
    marked,
    most_different,
    with_marks,
)
from fairseq_posattn.scoring.metrics.runs import Samples, check_statistics, written_statistics
from fairseq_posattn.scoring.metrics.scores import Scoring, Translations
from fairseq_posattn.scoring.metrics.segment_scores import SegmentScores
from fairseq_posattn.scoring.metrics.texts import (
    Texts,
    check_count,
    read_references,
    read_texts,
    warn_of_script,
    warn_of_spacing,
)
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.scoring.score_record import (
    EXACT,
    LOWER_IS_BETTER,
    VERSION,
    Baseline,
    Ngrams,
    ScoredSystem,
    Speed,
    Subsets,
)

__all__ = ["ScoreRequest", "ScoredSystem", "score", "write_scores"]


def write_scores(request: ScoreRequest) -> ScoredSystem:
    """Compute the scores, and write them to the file `request.json`, if it is given."""
    with locked(request.json):
        result = score(request)
        if request.json:
            document = as_document(result)
            write_json(request.json, document, ensure_ascii=False, indent=1, allow_nan=False)
    return result


def score(request: ScoreRequest) -> ScoredSystem:
    """Compute all requested scores, comparisons and additional results.

    Raises InputError if options contradict each other, or if files do not match.
    """
    check(request)
    extras = read_extras(request)
    texts = read_texts(request)
    given = read_references(request, texts)
    if not request.statistics:
        warn_of_spacing(texts, given)
    samples = Samples(request.samples, request.samples) if request.samples else Samples()
    measures = read_measures(request, texts)
    labels = buckets.read_labels(request.subsets, texts.system[0])
    if request.examples:
        extras["examples"] = [with_text(one, texts.written) for one in extras["examples"]]
    scoring = Scoring([text.lines for text in given], request)
    main = scoring.main
    if request.statistics:
        for text in [*texts.system, *texts.baseline]:
            check_statistics(scoring.metrics[main], text.name, text.lines)
    warn_of_script(given, scoring)
    system = Translations(scoring, [text.lines for text in texts.system])
    orders = ABSENT if request.only_main else ngrams.of_runs(system)
    segments = SegmentScores.read(request, texts)
    baseline = Translations(scoring, [text.lines for text in texts.baseline])
    tables = [one.tables[main] for one in (system, baseline) if one.runs]
    splitting = buckets.Splitting(scoring.metrics[main], tables, samples)
    return ScoredSystem(
        version=VERSION,
        code=code_version(),
        system=writable(request.name or Path(request.hypotheses[0]).name),
        test=writable(request.test),
        source=writable(request.source_lang),
        target=writable(request.target_lang),
        sentences=len(given[0].lines),
        references=len(given),
        runs=several(system),
        scores={**system.scores(samples), **segments.scores(samples)},
        ngrams=orders,
        main=request.main or ABSENT,
        buckets={name: splitting.by_range(*measure) for name, measure in measures.items()},
        subsets=by_label(splitting, labels) if labels else ABSENT,
        words=words.read_words(request, texts, scoring, samples) or ABSENT,
        baseline=(
            against_baseline(request, system, baseline, texts, orders, segments, samples)
            if request.baseline
            else ABSENT
        ),
        **extras,
    )


def main_statistics(request: ScoreRequest) -> tuple[str, str]:
    """Return the statistics of the main score of one run, and the score's name and signature.

    The statistics are in the format that `--statistics` reads.
    """
    scoring, texts = read_scoring(request)
    counted = Translations(scoring, [texts.system[0].lines]).tables[scoring.main]
    return written_statistics(counted[0]), signature_of_main(scoring)


def main_signature(request: ScoreRequest) -> str:
    """Return the name and signature of the main score."""
    return signature_of_main(read_scoring(request)[0])


def read_scoring(request: ScoreRequest) -> tuple[Scoring, Texts]:
    check(request)
    texts = read_texts(request)
    references = read_references(request, texts)
    return Scoring([text.lines for text in references], request), texts


def signature_of_main(scoring: Scoring) -> str:
    """Return the name and signature of the main score, without the version of sacrebleu."""
    parts = scoring.signature(scoring.main).split("|")
    return "|".join([scoring.main, *(p for p in parts if not p.startswith("version:"))])


def check(request: ScoreRequest) -> None:
    if bool(request.references) == bool(request.sgm):
        raise InputError("expected exactly one of --references and --sgm; give one of them")
    if request.baseline_segment_scores and not request.baseline:
        raise InputError(
            "--baseline-segment-scores requires --baseline; give the baseline's translations"
        )
    if request.statistics and (not request.only_main or request.train_target):
        raise InputError(
            "--statistics supports only the main score; give --only-main, and leave out "
            "--train-target"
        )
    if request.only_main and request.exact and request.main != EXACT:
        raise InputError("--only-main contradicts --exact; leave one of them out")


def several(system: Translations) -> int:
    return len(system.runs) if len(system.runs) > 1 else ABSENT


def writable(name: str) -> str:
    """Escape bytes of a command-line argument that are not valid UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def read_measures(request: ScoreRequest, texts: Texts) -> dict[str, buckets.Measure]:
    """Return the value of each source sentence and the ranges, by measure (such as `length`)."""
    found: dict[str, buckets.Measure] = {}
    if texts.source:
        found["length"] = [len(line.split()) for line in texts.source.lines], buckets.LENGTHS
    if request.trees:
        depths = buckets.tree_depths(texts.trees)
        check_count(texts.system[0], request.trees, len(depths), "sentences")
        found["depth"] = depths, buckets.DEPTHS
        longest = buckets.longest_dependencies(texts.trees)
        found["longest_dependency"] = longest, buckets.LONGEST
    if texts.pieces:
        split = buckets.split_words(texts.pieces, request.separator)
        found["split_words"] = split, buckets.SPLIT_WORDS
    return found


def by_label(splitting: buckets.Splitting, labels: dict[str, list[str]]) -> dict[str, Subsets]:
    """Return the main score by label, for each label file.

    Holm's correction for the means covers all label files.
    """
    found = {name: splitting.by_label(of_sentences) for name, of_sentences in labels.items()}
    means = with_marks({name: one.mean for name, one in found.items()})
    return {name: replace(one, mean=means[name]) for name, one in found.items()}


def against_baseline(
    request: ScoreRequest,
    system: Translations,
    baseline: Translations,
    texts: Texts,
    ours: list[Ngrams],
    segments: SegmentScores,
    samples: Samples,
) -> Baseline:
    found = {**compared(baseline, system, samples), **segments.compared(samples)}
    lower = {*LOWER_IS_BETTER, *segments.lower_is_better}
    return Baseline(
        system=writable(request.baseline_name or Path(request.baseline[0]).name),
        runs=several(baseline),
        significance=str(samples),
        scores=marked({name: (one, name in lower) for name, one in found.items()}),
        ngrams=ngrams.gaps(ours, ngrams.of_runs(baseline)) if ours else ABSENT,
        sentences=(
            ABSENT
            if request.only_main
            else most_different(baseline, system, texts.written, request.sentences)
        ),
    )


def with_text(example: Example, written: Sequence[str | None]) -> Example:
    """Add the untokenised source to an example, if it is known."""
    own = example.number < len(written) and written[example.number]
    return replace(example, text=own) if own and example.text is ABSENT else example


def read_extras(request: ScoreRequest) -> dict[str, Any]:
    """Read the requested logs, examples and statistics of attention heads."""
    found: dict[str, Any] = {}
    logs = {"translation": request.generate_log, "with_parsing": request.parsing_log}
    if any(logs.values()):
        found["speed"] = Speed(**{name: speed(paths) for name, paths in logs.items() if paths})
    if request.train_log:
        found["training"] = training_log.training(request.train_log)
    if request.examples:
        found["examples"] = read_examples(request.examples)
    if request.heads:
        found["heads"] = read_heads(request.heads)
    return found
