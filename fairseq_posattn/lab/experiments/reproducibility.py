"""Write reproducibility.md, which answers the questions of a reproducibility checklist.

Its content is taken from recipe.toml and from the records, logs and scores of the runs. What these
files do not contain is omitted or reported as unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import count_lines
from fairseq_posattn.io.progress import duration
from fairseq_posattn.io.records import known, read_record
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab.experiments.runs import (
    AGAIN,
    RECORD,
    Run,
    RunRecord,
    by_option,
    fingerprint_of,
)
from fairseq_posattn.lab.experiments.scoring import logs
from fairseq_posattn.lab.experiments.tables import Line, Result
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace
from fairseq_posattn.lab.scoring.tables import NONE, Cell, Table, markdown
from fairseq_posattn.lab.scoring.training_log import read_training

PAGE, PREPARED = "reproducibility.md", "data.called"
SACREBLEU = re.compile(r"version:([^|]+)")
NOTE = (
    "In brackets: 95 % interval for new sentences and, with several runs, new trainings. Training: "
    "mean time in the logs, including interrupted starts."
)
CHOICES = (
    "These are options of fairseq-train, without dashes. updates is max-update, batch-tokens is "
    "the number of tokens per update over all processes, and the trees `own` are those of the "
    "data, without a control. averaged, beam and lenpen are options of translation."
)
Section = Iterator[str]
Cells = list[str | Cell]


@dataclass(frozen=True)
class Facts:
    """The experiment that the page describes.

    of_system: the runs of each model.
    """

    place: Workplace
    plan: Plan
    lines: Sequence[Line]
    of_system: Mapping[str, Sequence[Run]]

    @property
    def runs(self) -> list[Run]:
        return [run for runs in self.of_system.values() for run in runs]

    def records(self) -> list[RunRecord]:
        """Return the newest record of each run, which lists all machines and versions."""
        paths = [(run, run.folder / RECORD) for run in self.runs]
        return [
            read_record(RunRecord, path, AGAIN) if path.exists() else run.record
            for run, path in paths
        ]


def write_page(place: Workplace, plan: Plan, lines: Sequence[Line], runs: Sequence[Run]) -> None:
    of_system: dict[str, list[Run]] = {line.row.system: [] for line in lines}
    for run in runs:
        of_system[run.record.system].append(run)
    facts = Facts(place, plan, lines, of_system)
    with written_whole(place.work / PAGE) as file:
        file.writelines(f"{line}\n" for line in page(facts))


def note_preparing(place: Workplace, plan: Plan) -> None:
    """Record the command line that prepared the data."""
    with written_whole(place.work / PREPARED) as file:
        file.write(f"{plan.called}\n")


def page(facts: Facts) -> Iterator[str]:
    yield f"# {visible(facts.place.content.title)}: how to repeat it"
    for title, section in SECTIONS.items():
        if found := list(section(facts)):
            yield from ("", f"## {title}", "", *found)


def models(facts: Facts) -> Section:
    rows = []
    for line in facts.lines:
        runs = facts.of_system[line.row.system]
        seeds = ", ".join(str(run.record.seed) for run in runs)
        parameters = line.training.parameters if line.training else None
        row: Cells = [Cell(line.row.title, is_code=True), line.row.size]
        row += [f"{len(runs)} (seeds {seeds})", *map(bounded, line.results.values())]
        row += [f"{parameters:,}" if parameters else NONE, training_time(runs)]
        rows.append(row)
    head = ["model", "size", "runs", *facts.lines[0].results, "parameters", "training"]
    yield from markdown([Table("", head, rows, [NOTE])])


def bounded(result: Result) -> str:
    if result.system is None or result.main is None:
        return NONE
    ends = known(result.main.interval)
    shown = f" ({ends[0]:.2f} to {ends[1]:.2f})" if ends else ""
    return f"{result.system.main_score} {result.main.score:.2f}{shown}"


def training_time(runs: Sequence[Run]) -> str:
    """Format the mean training time; return NONE unless all times are known."""
    paths = [logs(run.folder, "train*.log", "train.log") for run in runs]
    found = [read_training(list(map(str, p))).seconds for p in paths if p[0].exists()]
    seconds = [one for one in found if one is not None]
    return duration(mean(seconds)) if runs and len(seconds) == len(runs) else NONE


def machines(facts: Facts) -> Section:
    found: dict[str, list[str]] = {}
    for run, record in zip(facts.runs, facts.records(), strict=True):
        for machine in record.machines or ["unknown"]:
            found.setdefault(machine, []).append(run.name)
    rows: list[Cells] = [
        [machine, "all" if len(names) == len(facts.runs) else ", ".join(names)]
        for machine, names in found.items()
    ]
    yield from markdown([Table("", ["machine", "runs"], rows)])


def hyper_parameters(facts: Facts) -> Section:
    """Yield tables of the shared and of the differing options, and how they were chosen."""
    chosen = [choices(facts, line) for line in facts.lines]
    names = dict.fromkeys(name for of_model in chosen for name in of_model)
    shared = [name for name in names if len({one.get(name) for one in chosen}) == 1]
    rows: list[Cells] = [[Cell(n, is_code=True), chosen[0][n] or "yes"] for n in shared]
    tables = [Table("All models", ["option", "value"], rows)] if shared else []
    if len(shared) < len(names):
        rows = []
        for line, of_model in zip(facts.lines, chosen, strict=True):
            own = [f"{name} {of_model[name]}".strip() for name in of_model if name not in shared]
            title = Cell(line.row.title, is_code=True)
            rows.append([title, line.row.size, Cell("; ".join(own), is_code=True)])
        tables.append(Table("What differs", ["model", "size", "options"], rows))
    yield from (*markdown(tables), "", CHOICES, "")
    yield told_by_recipe("How they were chosen", facts.place.content.chosen, "chosen")


def choices(facts: Facts, line: Line) -> dict[str, str]:
    """Return the settings of a model, by option name without leading dashes."""
    found: dict[str, dict[str, None]] = {}
    for run in facts.of_system[line.row.system]:
        translated = getattr(run.record, "translated", {})  # by a stored run
        of_run = {"updates": str(run.record.updates), "trees": run.record.trees}
        of_run |= {name: f"{value:g}" for name, value in translated.items()}
        options = by_option(run.record.options)
        of_run |= {name.removeprefix("--"): " ".join(of) for name, of in options.items()}
        for name, value in of_run.items():
            found.setdefault(name, {})[value] = None
    found.pop("seed", None)
    content = facts.place.content
    if not facts.plan.from_study:  # stored runs know their own settings of the translation
        averaged = facts.plan.last or content.sizes[line.row.size].averaged
        beam, lenpen = content.evaluation.beam, content.evaluation.lenpen
        translating = {"averaged": averaged, "beam": beam, "lenpen": lenpen}
        found |= {name: {str(value): None} for name, value in translating.items()}
    return {name: " or ".join(values) for name, values in found.items()}


def told_by_recipe(what: str, told: str, key: str) -> str:
    if told:
        return f"{what}: {visible(told)}"
    return f"{what}: unknown; state it as `{key}` in recipe.toml."


def data(facts: Facts) -> Section:
    """Yield tables of the texts, and of the training files and test sets with their checksums."""
    place, content = facts.place, facts.place.content
    roles = {content.corpus.train: "training", content.corpus.valid: "validation"}
    rows = []
    for name in content.corpus.names:
        path = place.raw / f"{name}.{content.source}"
        count = f"{count_lines(path):,}" if path.is_file() else NONE
        rows.append([name, roles.get(name, "test"), count])
    yield from markdown([Table("", ["text", "split", "sentences"], rows)])
    yield from ("", told_by_recipe("Licence", content.corpus.licence, "corpus.licence"), "")
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for run in facts.runs:
        for name, about in run.record.files.items():
            key = (name, str(about.get("bytes", NONE)), str(about.get("sha256", NONE)))
            found.setdefault(key, {})[run.record.trees] = None
    counts = Counter(name for name, *_ in found)
    rows = [
        [f"{name} ({', '.join(trees)})" if counts[name] > 1 else name, size, sha256]
        for (name, size, sha256), trees in found.items()
    ]
    for test in content.corpus.tests:
        for path in (place.raw / f"{test}.{one}" for one in (content.source, content.target)):
            if path.is_file():
                about = fingerprint_of(path)
                rows.append([path.name, str(about["bytes"]), about["sha256"]])
    yield from markdown([Table("", ["file", "bytes", "SHA-256"], rows)])


def versions(facts: Facts) -> Section:
    """Yield the versions of the programs that trained and scored; see also the machines."""
    systems = [system for line in facts.lines for system in line.systems]
    signatures = (score.signature for system in systems for score in system.scores.values())
    matches = (SACREBLEU.search(signature) for signature in signatures)
    found: dict[str, dict[str, None]] = {
        "fairseq_posattn, training": {v: None for one in facts.records() for v in one.versions},
        "fairseq_posattn, scores": {system.code: None for system in systems if system.code},
        "sacrebleu": {match[1]: None for match in matches if match},
    }
    rows = [[name, ", ".join(values)] for name, values in found.items() if values]
    yield from markdown([Table("", ["program", "version"], rows)])


def commands(facts: Facts) -> Section:
    noted = facts.place.work / PREPARED
    if noted.exists():
        prepared = noted.read_text(encoding="utf-8").strip()
    else:
        prepared = f"posattn recipe prepare {facts.place.recipe.called}"
        yield from ("The options with which the data were prepared are unknown.", "")
    yield from ("```bash", visible(prepared), visible(facts.plan.called), "```")


SECTIONS: Mapping[str, Callable[[Facts], Section]] = {
    "Models": models,
    "Machines": machines,
    "Hyper-parameters": hyper_parameters,
    "Data": data,
    "Versions": versions,
    "Commands": commands,
}
