"""Format a scored system as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from fairseq_posattn.io.records import ABSENT
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab.scoring.score_record import (
    MEAN,
    SEGMENTS,
    Difference,
    Part,
    ScoredSystem,
    is_lower_better,
)
from fairseq_posattn.lab.scoring.statistics import smallest_exact

SMALL = 1.5  # segment scores below this are shown with four decimals


def lines(result: ScoredSystem) -> Iterator[str]:
    """Yield the lines of the table, with invisible characters escaped.

    The table contains all scores, BLEU by n-gram order, the scores of parts of the test set and, if
    there is a baseline, the differences from it.
    """
    yield from map(visible, raw_lines(result))


def raw_lines(result: ScoredSystem) -> Iterator[str]:
    """Yield the lines of the table without escaping."""
    test = f" on {result.test}" if result.test else ""
    runs = f", runs: {result.runs}" if result.runs else ""
    counts = f"{result.sentences:,} sentences, references: {result.references}{runs}"
    yield f"{result.system}{test}: {counts}"
    yield from score_lines(result)
    yield from ngram_lines(result)
    for name in result.parts:
        yield ""
        yield from part_lines(result, name)


def score_lines(result: ScoredSystem) -> Iterator[str]:
    baseline = result.baseline
    for name, score in result.scores.items():
        compared = baseline.scores.get(name) if baseline else None
        digits = digits_of(score.score, score.signature)
        spread = f" ± {score.deviation:4.{digits}f}" if result.runs else ""
        if score.interval:
            spread += " [{:.{n}f}, {:.{n}f}]".format(*score.interval, n=digits)
        differs = f"  {difference(compared, digits):44}" if baseline else ""
        yield f"{name:15} {score.score:6.{digits}f}{spread}{differs}  {score.signature}".rstrip()
    if lower := [name for name, one in result.scores.items() if is_lower_better(name, one)]:
        yield f"lower is better: {', '.join(lower)}"
    if baseline:
        yield f"differences to {baseline.system}: {baseline.significance}"
        yield from what_they_say(result.run_count, baseline.runs or 1)


def what_they_say(runs: int, others: int) -> Iterator[str]:
    """Yield the lines that explain the p-values, given the numbers of runs of both systems."""
    if min(runs, others) < 2:
        yield "p: for these outputs only; testing new trainings requires several runs of both"
        return
    yield "p for new trainings: Welch; on new sentences: bootstrap; for these runs: randomisation"
    yield "⇑ ⇓ p < 0.01 in both Welch and bootstrap, ↑ ↓ p < 0.05, after Holm over all scores"
    smallest = smallest_exact(others, runs)
    if smallest > 0.01:
        yield (
            f"with {others} + {runs} runs, no exact permutation test can reach a p-value below "
            f"{smallest:.2g}"
        )


def digits_of(score: float, signature: str) -> int:
    """Return the number of decimals: 4 for small segment scores, such as COMET, otherwise 2."""
    return 4 if signature == SEGMENTS and abs(score) < SMALL else 2


def difference(compared: Difference | None, digits: int = 2) -> str:
    """Format a difference with its mark and p-values."""
    if compared is None:
        return ""
    named = {"Welch": compared.welch_p, "bootstrap": compared.bootstrap_p}
    named["randomisation"] = compared.randomisation_p
    p = ", ".join(f"{name} {p:.4f}" for name, p in named.items() if p is not ABSENT)
    return f"{compared.difference:+6.{digits}f} {compared.mark:1} ({p})"


def ngram_lines(result: ScoredSystem) -> Iterator[str]:
    if not result.ngrams:
        return
    gaps = result.baseline.ngrams if result.baseline else None
    yield ""
    yield "n  BLEU up to n  precision of n" + ("   gaps" if gaps else "")
    for k, order in enumerate(result.ngrams):
        row = f"{order.n}  {order.bleu:12.2f}  {order.precision:14.2f}"
        gap = f"  {gaps[k].bleu:+7.2f} {gaps[k].precision:+7.2f}" if gaps else ""
        yield row + gap


def part_lines(result: ScoredSystem, name: str) -> Iterator[str]:
    parts: list[tuple[str, Part]] = [(part.name, part) for part in result.parts[name]]
    if name in (result.subsets or {}):
        parts.append((MEAN, result.subsets[name].mean))
    width = max(12, *(len(shown) for shown, _ in parts))
    yield f"{name.replace('_', ' '):{width}} sentences  {result.main or 'BLEU':>6}"
    for shown, part in parts:
        ends = f" [{part.interval[0]:.2f}, {part.interval[1]:.2f}]" if part.interval else ""
        differs = f"  {difference(part.difference)}" if part.difference else ""
        yield f"{shown:{width}} {part.sentences:9,}  {part.value:6.2f}{ends}{differs}"
