"""Build the report, one page that shows the tables, figures and examples of scored systems.

The page is made to be looked at and to be printed; posattn-report writes it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fairseq_posattn.lab.report import heads, side_by_side, tables
from fairseq_posattn.lab.report.arcs import tree_svg
from fairseq_posattn.lab.report.drawing import looks
from fairseq_posattn.lab.report.extra import ExtraSection
from fairseq_posattn.lab.report.figures import Plotter
from fairseq_posattn.lab.report.sections import Section, buckets, gaps, speeds, words
from fairseq_posattn.lab.report.systems import System, by_test
from fairseq_posattn.trees.drawing import depths

PAGE = Path(__file__).with_name("page")
TITLE = "Translation quality"
OF_SCRIPT = ["number", "words", "pieces", "attention"]
OF_SCRIPT += ["target_pieces", "decoder_attention", "cross_attention"]


def page(systems: Sequence[System], title: str = TITLE, extra: Sequence[ExtraSection] = ()) -> str:
    """Return the whole report as HTML, with sections that other parts of the package add."""
    plotter = Plotter(looks(systems))
    script = (PAGE / "page.js").read_text(encoding="utf-8")
    columns = tables.score_columns(systems)
    compared = [system for system in systems if system.baseline]
    tables.correct_marks(compared)
    examples = list(all_examples(systems))
    return (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            css=Markup((PAGE / "page.css").read_text(encoding="utf-8")),
            script=Markup(script),
            script_digest=digest(script),
            facts=facts(systems),
            looks=plotter.looks,
            tests=by_test(systems),
            columns=columns,
            compared=compared,
            signatures=tables.signatures(systems),
            differences=tables.differences(compared),
            different=side_by_side.all_pairs(compared),
            gaps=gaps(compared, plotter),
            orders=tables.ORDERS,
            plots=[s for s in sections(systems, plotter) if s.parts],
            heads=heads.all_parts(systems),
            extra=extra,
            examples=examples,
            example_systems=[name_of(s, systems) for s in systems if s.examples],
            data=[script_data(example) for example in examples],
        )
    )


def sections(systems: Sequence[System], plotter: Plotter) -> Iterable[Section]:
    """Yield all sections that consist of figures."""
    yield buckets(systems, plotter)
    yield words(systems, plotter)
    yield from speeds(systems, plotter)


def environment() -> Environment:
    """Return an environment for templates in which all text is escaped."""
    found = Environment(loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined)
    found.globals |= {
        "score_rows": tables.score_rows,
        "unique_names": unique_names,
        "about_test": about_test,
    }
    found.filters["groupby_system"] = by_system
    return found


def digest(script: str) -> str:
    """Return the digest by which the page's own rule allows this script and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def facts(systems: Sequence[System]) -> list[str]:
    """Return the facts at the top of the page: languages, number of systems, and the test set if
    there is one only."""
    pairs = dict.fromkeys(
        f"{system.about['source']} → {system.about['target']}"
        for system in systems
        if system.about.get("source") and system.about.get("target")
    )
    return [*pairs, counted(len(unique_names(systems)), "system"), *only_test(systems)]


def only_test(systems: Sequence[System]) -> list[str]:
    """Return the sizes of the only test set; several test sets have them in the table."""
    if len(by_test(systems)) > 1:
        return []
    return [part for part in (about_test(systems),) if part]


def about_test(systems: Sequence[System]) -> str:
    """Return how many sentences and references a test set has, in words."""
    parts = (("sentences", "sentence"), ("references", "reference"))
    about = systems[0].about
    return ", ".join(counted(about[key], word) for key, word in parts if about.get(key))


def counted(number: int, word: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def unique_names(systems: Iterable[System]) -> list[str]:
    """Return the names of the systems, each once."""
    return list(dict.fromkeys(system.name for system in systems))


def by_system(rows: Sequence[tables.Difference]) -> list[tuple[System, list[tables.Difference]]]:
    """Return the rows of each system together."""
    grouped = groupby(rows, key=lambda row: id(row.system))
    return [(found[0].system, found) for found in (list(group) for _, group in grouped)]


def all_examples(systems: Sequence[System]) -> Iterable[dict]:
    """Yield what the page shows of each example; `group` is the number of its system."""
    with_examples = [system for system in systems if system.examples]
    for group, system in enumerate(with_examples):
        for example in system.examples:
            name = name_of(system, systems) if len(with_examples) > 1 else system.name
            yield {
                "reference": None,
                **example,
                "system": name,
                "group": group,
                "tree": tree(example),
            }


def tree(example: dict) -> Markup | None:
    """Return the picture of an example's tree, or None if it has no tree."""
    if not example["parents"]:
        return None
    parents = example["parents"]
    shown = tree_svg(example["words"], parents, depths(parents), example.get("relations"))
    return Markup(shown)


def script_data(example: dict) -> dict:
    """Return what the script of the page needs of an example."""
    kept = {name: example[name] for name in OF_SCRIPT if name in example}
    return {**kept, "system": example["group"]}


def name_of(system: System, systems: Sequence[System]) -> str:
    """Return the name of a system, with the test set where there are several."""
    several = len(by_test(systems)) > 1 and system.test
    return f"{system.name}, {system.test}" if several else system.name
