"""Tables of the main score on parts of the test sets, with one column per system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fairseq_posattn.files.records import known
from fairseq_posattn.scoring.metrics.comparison import with_marks
from fairseq_posattn.scoring.score_record import MEAN, Bucket, Part, ScoredSystem
from fairseq_posattn.scoring.tables import NONE, Cell, Table, p_value

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
    return Table(title, head, rows, list(notes(systems, columns)), parts=parts_at)


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


def notes(systems: Sequence[ScoredSystem], columns: Sequence[Column]) -> Iterator[str]:
    parts = [part for column in columns for part in column.values()]
    if any(part.interval for part in parts):
        yield "In brackets: 95 % interval for new sentences and, with several runs, new trainings."
    if any(part.difference and known(part.difference.welch_p) is not None for part in parts):
        names = dict.fromkeys(system.baseline.system for system in systems if system.baseline)
        yield (
            f"Bold: differs from {', '.join(names)} with p < 0.05 in both Welch's t-test and the "
            "bootstrap, with Holm's correction for all tests in this table (separately for means)."
        )
