"""Build the rows of the report's tables, and mark the best value of each column."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fairseq_posattn.files.records import known
from fairseq_posattn.report.figures import signed
from fairseq_posattn.report.systems import by_test, differences_of, gaps_of, speed_of
from fairseq_posattn.scoring.metrics.comparison import marked
from fairseq_posattn.scoring.score_record import Difference, ScoredSystem, is_lower_better
from fairseq_posattn.scoring.system_tables import digits_of
from fairseq_posattn.scoring.tables import Cell, Table, p_value

SCORES = ("BLEU", "chrF2", "chrF2++", "TER", "tokenised BLEU", "NIST BLEU")
ORDERS = range(1, 9)


@dataclass(frozen=True)
class Column:
    """A column of the score table.

    value: function that returns the value of a system, or None if it is unknown.
    """

    title: str
    group: str
    value: Callable[[ScoredSystem], float | None]
    digits: int = 2
    better: int = 1  # 1 if more is better, -1 if less is better, 0 if neither is

    def written(self, value: float | None) -> str:
        return "" if value is None else f"{value:,.{self.digits}f}"


def score_called(name: str) -> Callable[[ScoredSystem], float | None]:
    return lambda system: system.scores[name].score if name in system.scores else None


# U+2060 prevents a line break after the slash. Speeds are not ranked, because the logs do not show
# on which machine they were measured, or what else was running there.
FIGURES = (
    Column("parameters", "parameters", lambda s: known(s.training and s.training.parameters), 0, 0),
    Column(
        "training words/\u2060s",
        "training",
        lambda s: known(s.training and s.training.words_per_second),
        0,
        0,
    ),
    Column("sentences/\u2060s", "decoding", lambda s: speed_of(s, "translation"), 1, 0),
    Column(
        "sentences/\u2060s, with parsing", "parsing", lambda s: speed_of(s, "with_parsing"), 1, 0
    ),
)


def score_columns(systems: Sequence[ScoredSystem]) -> list[Column]:
    """Return the columns in which at least one system has a value.

    The most common scores come first, then other scores, the number of parameters, and speeds.
    """
    names = dict.fromkeys([*SCORES, *(name for system in systems for name in system.scores)])
    scores = [
        Column(
            title=name,
            group="score",
            value=score_called(name),
            digits=digits(name, systems),
            better=-1 if lower_is_better(name, systems) else 1,
        )
        for name in names
    ]
    return [c for c in (*scores, *FIGURES) if any(c.value(s) is not None for s in systems)]


def digits(name: str, systems: Sequence[ScoredSystem]) -> int:
    """Return the number of decimals of a score.

    Scores between 0 and 1, such as COMET, need more decimals than other scores.
    """
    found = [system.scores[name] for system in systems if name in system.scores]
    return min((digits_of(one.score, one.signature) for one in found), default=2)


def lower_is_better(name: str, systems: Sequence[ScoredSystem]) -> bool:
    found = [system.scores[name] for system in systems if name in system.scores]
    return any(is_lower_better(name, one) for one in found)


def score_tables(
    systems: Sequence[ScoredSystem], columns: Sequence[Column], about: Callable[..., str]
) -> list[Table]:
    """Return a table for each test set.

    about: function that describes the test set of a list of systems.
    """
    head = ["system", *(column.title for column in columns)]
    alignment = "l" + "".join("m" if column.group == "score" else "r" for column in columns)
    found = []
    for test, group in by_test(systems).items():
        best = [best_text(column, group) for column in columns]
        rows = []
        for system in group:
            runs = f"{system.runs} runs" if system.run_count > 1 else ""
            cells = [cell(system, *pair) for pair in zip(columns, best, strict=True)]
            rows.append([Cell(system.system, system=system.system, small=runs), *cells])
        found.append(Table(test, head, rows, [about(group)], alignment))
    return found


def cell(system: ScoredSystem, column: Column, best: str | None) -> Cell:
    """Return a cell that is bold if it contains the best value of its column."""
    text, mark, spread = column.written(column.value(system)), "", ""
    if column.group == "score" and column.title in system.scores:
        deviation = known(system.scores[column.title].deviation)
        compared = differences_of(system)
        mark = compared[column.title].mark if column.title in compared else ""
        spread = "" if deviation is None else f"± {deviation:.{column.digits}f}"
    return Cell(text, is_bold=text == best, small=spread, mark=mark)


def best_text(column: Column, systems: Sequence[ScoredSystem]) -> str | None:
    """Return the best value as text, or None if all values are equal or the column is unranked."""
    values = [v for system in systems if (v := column.value(system)) is not None]
    if not column.better or len({column.written(v) for v in values}) < 2:
        return None
    return column.written(max(values, key=lambda value: column.better * value))


def with_marks(systems: Sequence[ScoredSystem]) -> list[ScoredSystem]:
    """Recompute the significance marks, with Holm's correction over all tests on the page."""
    marks = marked(
        {
            (k, name): (one, lower_is_better(name, [system]))
            for k, system in enumerate(systems)
            for name, one in differences_of(system).items()
        }
    )
    found = []
    for k, system in enumerate(systems):
        if scores := {name: marks[k, name] for name in differences_of(system)}:
            system = replace(system, baseline=replace(system.baseline, scores=scores))
        found.append(system)
    return found


def signatures(systems: Sequence[ScoredSystem]) -> list[tuple[str, str, str]]:
    """Return (score, signature, systems) tuples.

    `systems` is empty if all systems have the same signature for this score.
    """
    found: dict[tuple[str, str], list[ScoredSystem]] = {}
    for system in systems:
        for name, score in system.scores.items():
            found.setdefault((name, score.signature), []).append(system)
    several = [name for name, _ in found]
    order = list(dict.fromkeys([*SCORES, *several]))
    return [
        (name, signature, named(users) if several.count(name) > 1 else "")
        for (name, signature), users in sorted(found.items(), key=lambda i: order.index(i[0][0]))
    ]


def named(systems: Sequence[ScoredSystem]) -> str:
    shown = []
    for test, group in by_test(systems).items():
        names = ", ".join(system.system for system in group)
        shown.append(f"{names} ({test})" if test else names)
    return "; ".join(shown)


def difference_tables(systems: Sequence[ScoredSystem], with_test: bool) -> list[Table]:
    """Return a table for each system that was compared with a baseline, with one row per score."""
    tests = ("Welch’s t-test", "bootstrap", "approximate randomisation")
    head = ["system", "baseline", "score", "difference", "95 % bootstrap interval"]
    found = []
    for system in systems:
        compared = differences_of(system)
        rows = [difference_row(system, name, one) for name, one in compared.items()]
        if rows:
            test = system.test if with_test else ""
            name, span = system.system, len(rows)
            rows[0] = [
                Cell(name, system=name, small=test, span=span),
                Cell(system.baseline.system, span=span),
                *rows[0],
            ]
            found.append(Table("", [*head, *(f"p, {t}" for t in tests)], rows, (), "lllmrrrr"))
    return found


def difference_row(system: ScoredSystem, name: str, found: Difference) -> list[str | Cell]:
    ends = [found.difference, *(found.interval or ())]
    difference, *bounds = [signed(end, digits(name, [system])) for end in ends]
    p = map(known, (found.welch_p, found.bootstrap_p, found.randomisation_p))
    shown = ["" if one is None else p_value(one) for one in p]
    title = f"{name} (lower is better)" if lower_is_better(name, [system]) else name
    return [title, Cell(difference, mark=found.mark), " to ".join(bounds), *shown]


def gap_table(systems: Sequence[ScoredSystem], measure: str, title: str) -> Table:
    """Return the differences of the systems by n-gram order (empty if they are unknown)."""
    rows: list[list[str | Cell]] = []
    for system in systems:
        gaps = {gap.n: getattr(gap, measure) for gap in gaps_of(system)}
        cells = [signed(gaps[n], digits=2) if n in gaps else "" for n in ORDERS]
        rows.append([Cell(system.system, system=system.system), title, *cells])
    head = ["system", "gap in", *map(str, ORDERS)]
    return Table("", head, rows, (), f"lw{'r' * len(ORDERS)}")
