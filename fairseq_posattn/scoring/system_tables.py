"""Tables of a scored system for the terminal, and of several systems on parts of the test sets."""

from collections.abc import Iterator, Mapping, Sequence

from fairseq_posattn.files.records import ABSENT, known
from fairseq_posattn.scoring.metrics.comparison import with_marks
from fairseq_posattn.scoring.score_record import (
    MEAN,
    SEGMENTS,
    Bucket,
    Difference,
    Part,
    ScoredSystem,
    is_lower_better,
)
from fairseq_posattn.scoring.statistics import smallest_exact
from fairseq_posattn.scoring.tables import NONE, Cell, Table, p_value, terminal

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
        yield "p: for these outputs only; testing new runs requires several runs of both"
        return
    yield "p for new runs: Welch; on new sentences: bootstrap; for these runs: randomisation"
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


COLUMNS = ("", " deviation", " from", " to", " gain", " Welch p", " bootstrap p", " mark")
Column = dict[str, Part]  # by the name of the row
Published = Mapping[str, Mapping[str, float]]  # title of the column -> label or `mean` -> score


def part_tables(systems: Sequence[ScoredSystem], published: Published | None = None) -> list[Table]:
    """Return a table for each test set and criterion, such as sentence length.

    Criteria with labels (from --subsets) precede the others.

    published: published scores, shown in additional columns.
    """
    groups: dict[tuple[str, str], list[ScoredSystem]] = {}
    for system in systems:
        groups.setdefault((system.test, system.main or "BLEU"), []).append(system)
    found = []
    for (test, main), group in groups.items():
        for name in dict.fromkeys(name for system in group for name in system.parts):
            of_name = [system for system in group if system.parts.get(name)]
            title = f"{main} by {name.replace('_', ' ')}"
            if of_name:
                shown = f"{test}: {title}" if test else title
                found.append(table_of(shown, name, of_name, published or {}))
    return found


def table_of(title: str, name: str, systems: Sequence[ScoredSystem], published: Published) -> Table:
    """Return the table for one criterion: a column for each system, then the published scores."""
    parts = [part for system in systems for part in system.parts[name]]
    parts.sort(key=lambda part: part.first if isinstance(part, Bucket) else 0)
    sizes = {part.name: part.sentences for part in parts}
    columns = marked([{part.name: part for part in system.parts[name]} for system in systems])
    labelled = all(name in (system.subsets or {}) for system in systems)
    if labelled:
        sizes[MEAN] = systems[0].subsets[name].mean.sentences
        means = marked([{MEAN: system.subsets[name].mean} for system in systems])
        columns = [{**column, **of_all} for column, of_all in zip(columns, means, strict=True)]
    others = {title: found for title, found in published.items() if sizes.keys() & found.keys()}
    rows: list[list[str | Cell]] = []
    for row, size in sizes.items():
        known_scores = [f"{of[row]:.1f}" if row in of else NONE for of in others.values()]
        rows.append([row, f"{size:,}", *(cell(of.get(row)) for of in columns), *known_scores])
    head = [name.replace("_", " "), "sentences", *(system.system for system in systems), *others]
    parts_at = [len(rows) - 1] if labelled else []
    return Table(title, head, rows, list(notes_on_parts(systems, columns)), parts=parts_at)


def marked(columns: Sequence[Column]) -> list[Column]:
    """Mark significant differences in all columns, after Holm's correction over all of them."""
    found = with_marks({(k, row): p for k, of in enumerate(columns) for row, p in of.items()})
    return [{row: found[k, row] for row in column} for k, column in enumerate(columns)]


def cell(part: Part | None) -> Cell:
    """Return the table cell of a part: the score with its interval, and the values for CSV."""
    if part is None:
        return Cell(NONE, dict.fromkeys(COLUMNS, ""))
    low, high = part.interval if part.interval and len(part.interval) == 2 else (None, None)
    text = f"{part.value:.1f}" if low is None else f"{part.value:.1f} [{low:.1f}, {high:.1f}]"
    compared = part.difference or None
    numbers = [part.value, known(part.deviation), low, high, compared and compared.difference]
    p = [known(one) for one in (compared.welch_p, compared.bootstrap_p)] if compared else [None] * 2
    values = ["" if n is None else f"{n:.2f}" for n in numbers]
    values += ["" if one is None else p_value(one, plain=True) for one in p]
    mark = compared.mark if compared else ""
    return Cell(text, dict(zip(COLUMNS, [*values, mark], strict=True)), is_bold=bool(mark))


def notes_on_parts(systems: Sequence[ScoredSystem], columns: Sequence[Column]) -> Iterator[str]:
    parts = [part for column in columns for part in column.values()]
    if any(part.interval for part in parts):
        yield "In brackets: 95 % interval for new sentences and, with several runs, new runs."
    if any(part.difference and known(part.difference.welch_p) is not None for part in parts):
        names = dict.fromkeys(system.baseline.system for system in systems if system.baseline)
        yield (
            f"Bold: differs from {', '.join(names)} with p < 0.05 in both Welch's t-test and the "
            "bootstrap, with Holm's correction for all tests in this table (separately for means)."
        )
