"""Format a scored system as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from fairseq_posattn.files.records import ABSENT
from fairseq_posattn.scoring.score_record import (
    MEAN,
    SEGMENTS,
    Difference,
    Part,
    ScoredSystem,
    is_lower_better,
)
from fairseq_posattn.scoring.statistics import smallest_exact
from fairseq_posattn.scoring.tables import Table, terminal

SMALL = 1.5  # segment scores below this are shown with four decimals


def lines(result: ScoredSystem) -> Iterator[str]:
    """Yield the lines of the tables, with invisible characters escaped.

    The tables contain all scores, BLEU by n-gram order, the scores of parts of the test set and, if
    there is a baseline, the differences from it.
    """
    orders = [ngram_table(result)] if result.ngrams else []
    return terminal([score_table(result), *orders, *(part_table(result, n) for n in result.parts)])


def score_table(result: ScoredSystem) -> Table:
    test = f" on {result.test}" if result.test else ""
    runs = f", runs: {result.runs}" if result.runs else ""
    counts = f"{result.sentences:,} sentences, references: {result.references}{runs}"
    rows = []
    for name, score in result.scores.items():
        digits = digits_of(score.score, score.signature)
        shown = f"{score.score:6.{digits}f}"
        if result.runs:
            shown += f" ± {score.deviation:4.{digits}f}"
        if score.interval:
            shown += " [{:.{n}f}, {:.{n}f}]".format(*score.interval, n=digits)
        compared = result.baseline.scores.get(name) if result.baseline else None
        rows.append([name, shown, difference(compared, digits), score.signature])
    layout = "{:15} {}  {:44}  {}" if result.baseline else "{:15} {}{}  {}"
    title = f"{result.system}{test}: {counts}"
    return Table(title, [], rows, list(notes(result)), layout=layout)


def notes(result: ScoredSystem) -> Iterator[str]:
    """Yield the lines that explain the scores and p-values."""
    if lower := [name for name, one in result.scores.items() if is_lower_better(name, one)]:
        yield f"lower is better: {', '.join(lower)}"
    if not (baseline := result.baseline):
        return
    yield f"differences to {baseline.system}: {baseline.significance}"
    runs, others = result.run_count, baseline.runs or 1
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
    if not compared:
        return ""
    named = {"Welch": compared.welch_p, "bootstrap": compared.bootstrap_p}
    named["randomisation"] = compared.randomisation_p
    p = ", ".join(f"{name} {p:.4f}" for name, p in named.items() if p is not ABSENT)
    return f"{compared.difference:+6.{digits}f} {compared.mark:1} ({p})"


def ngram_table(result: ScoredSystem) -> Table:
    gaps = result.baseline.ngrams if result.baseline else None
    rows = [[str(o.n), f"{o.bleu:.2f}", f"{o.precision:.2f}", ""] for o in result.ngrams]
    for row, gap in zip(rows, gaps or (), strict=bool(gaps)):
        row[-1] = f"{gap.bleu:+7.2f} {gap.precision:+7.2f}"
    head = ["n", "BLEU up to n", "precision of n", " gaps" if gaps else ""]
    return Table("", head, rows, layout="{}  {:>12}  {:>14}  {}")


def part_table(result: ScoredSystem, name: str) -> Table:
    parts: list[tuple[str, Part]] = [(part.name, part) for part in result.parts[name]]
    if name in (result.subsets or {}):
        parts.append((MEAN, result.subsets[name].mean))
    rows = []
    for shown, part in parts:
        ends = f" [{part.interval[0]:.2f}, {part.interval[1]:.2f}]" if part.interval else ""
        differs = f"  {difference(part.difference)}" if part.difference else ""
        rows.append([shown, f"{part.sentences:,}", f"{part.value:.2f}", f"{ends}{differs}"])
    width = max(12, *(len(shown) for shown, _ in parts))
    head = [name.replace("_", " "), "sentences", result.main or "BLEU", ""]
    return Table("", head, rows, layout=f"{{:{width}}} {{:>9}}  {{:>6}}{{}}")
