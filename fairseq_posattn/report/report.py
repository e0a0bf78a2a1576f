"""Build the HTML page of posattn report: tables, figures and examples of scored systems."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.lock import locked
from fairseq_posattn.files.records import as_document
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.inspection.page import render, tree_svg
from fairseq_posattn.report import head_maps, score_tables, sections
from fairseq_posattn.report.drawing import styles_of
from fairseq_posattn.report.figures import Plotter
from fairseq_posattn.report.sections import ExtraSection
from fairseq_posattn.report.systems import TITLE, ReportRequest, by_test, read_systems
from fairseq_posattn.scoring.inspection_record import Example
from fairseq_posattn.scoring.score_record import ScoredSystem
from fairseq_posattn.trees.drawing import TreeLayout

PAGE = Path(__file__).with_name("page")
OF_SCRIPT = ["number", "words", "pieces", "attention"]
OF_SCRIPT += ["target_pieces", "decoder_attention", "cross_attention"]


@dataclass(frozen=True)
class ShownExample:
    """A translation example on the page.

    group: index of its system among the systems with examples.
    """

    example: Example
    system: str
    group: int

    @property
    def tree(self) -> Markup | None:
        found = self.example
        if not found.parents:
            return None
        return Markup(tree_svg(TreeLayout(found.words, found.parents, found.relations or None)))

    @property
    def data(self) -> dict[str, Any]:
        """The data that the script of the page reads."""
        found = as_document(self.example)
        return {**{name: found[name] for name in OF_SCRIPT if name in found}, "system": self.group}


def write_report(request: ReportRequest, extra: Sequence[ExtraSection] = ()) -> None:
    """Write the report on the systems of a request.

    extra: additional sections, such as the probing results.
    """
    with locked(request.out):
        text = page(read_systems(request.systems), visible(request.title), extra)
        with written_whole(request.out) as file:
            file.write(text)


def page(
    systems: Sequence[ScoredSystem], title: str = TITLE, extra: Sequence[ExtraSection] = ()
) -> str:
    """Return the report as an HTML page.

    extra: additional sections, such as the probing results.
    """
    systems = score_tables.with_marks(systems)
    plotter = Plotter(styles_of(systems))
    script = (PAGE / "page.js").read_text(encoding="utf-8")
    digest = hashlib.sha256(script.encode()).digest()  # the page's CSP allows only this script
    compared = [system for system in systems if system.baseline]
    heads = [head_maps.map_group(system) for system in systems if system.heads]
    tests, columns = by_test(systems), score_tables.score_columns(systems)
    return render(
        PAGE / "page.html",
        unique_names=unique_names,
        title=title,
        script=Markup(script),
        script_digest=f"sha256-{base64.b64encode(digest).decode()}",
        facts=facts(systems),
        styles=plotter.styles,
        tests=tests,
        columns=columns,
        scores=score_tables.score_tables(systems, columns, about_test),
        compared=compared,
        signatures=score_tables.signatures(systems),
        differences=score_tables.difference_tables(compared, len(tests) > 1),
        different=sections.all_pairs(compared),
        gaps=sections.gaps(compared, plotter),
        plots=[
            one
            for one in (*sections.grouped(systems, plotter), *sections.speeds(systems, plotter))
            if one.tests
        ],
        extra=[
            *([ExtraSection("heads", "Attention heads", groups=heads)] if heads else []),
            *sections.parts(systems),
            *extra,
        ],
        examples=list(all_examples(systems)),
        example_systems=[name_of(s, systems) for s in systems if s.examples],
    )


def facts(systems: Sequence[ScoredSystem]) -> list[str]:
    """Return the facts at the top of the page: languages, number of systems, and test set size.

    If there are several test sets, their sizes are omitted here and shown in the table.
    """
    pairs = dict.fromkeys(
        f"{system.source} → {system.target}"
        for system in systems
        if system.source and system.target
    )
    sizes = about_test(systems) if len(by_test(systems)) == 1 else ""
    return [*pairs, counted(len(unique_names(systems)), "system"), *filter(None, [sizes])]


def about_test(systems: Sequence[ScoredSystem]) -> str:
    """Describe the size of a test set, for example "1,000 sentences, 1 reference"."""
    sizes = ((systems[0].sentences, "sentence"), (systems[0].references, "reference"))
    return ", ".join(counted(number, word) for number, word in sizes if number)


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def unique_names(systems: Iterable[ScoredSystem]) -> list[str]:
    return list(dict.fromkeys(system.system for system in systems))


def all_examples(systems: Sequence[ScoredSystem]) -> Iterator[ShownExample]:
    with_examples = [system for system in systems if system.examples]
    for group, system in enumerate(with_examples):
        name = name_of(system, systems) if len(with_examples) > 1 else system.system
        yield from (ShownExample(example, name, group) for example in system.examples)


def name_of(system: ScoredSystem, systems: Sequence[ScoredSystem]) -> str:
    """Return the name of a system, followed by its test set if the report has several."""
    several = len(by_test(systems)) > 1 and system.test
    return f"{system.system}, {system.test}" if several else system.system
