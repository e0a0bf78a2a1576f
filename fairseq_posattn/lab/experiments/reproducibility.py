"""Write reproducibility.md, which answers the questions of a reproducibility checklist.

Its content is taken from recipe.toml and from the records, logs and scores of the runs. Facts that
these files do not contain are omitted or reported as unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean

from fairseq_posattn.io.atomic import written_whole
from fairseq_posattn.io.files import count_lines
from fairseq_posattn.io.progress import duration, size_of
from fairseq_posattn.io.records import known
from fairseq_posattn.io.visible import visible
from fairseq_posattn.lab.experiments.energy import energy_in
from fairseq_posattn.lab.experiments.facts import Facts, training_seconds
from fairseq_posattn.lab.experiments.runs import Run, fingerprint_of
from fairseq_posattn.lab.experiments.starts import Start
from fairseq_posattn.lab.experiments.tables import Cell, Line
from fairseq_posattn.lab.experiments.workplace import Plan, Workplace
from fairseq_posattn.lab.scoring.cells import NONE
from fairseq_posattn.lab.scoring.plain_tables import Marked, Table, markdown

PAGE, PREPARED = "reproducibility.md", "data.called"
SACREBLEU = re.compile(r"version:([^|]+)")
KEPT = (
    "The recipe contains only the translations and the training options of these runs, so "
    "parameters, times and machines are unknown."
)
BOUNDS = "In brackets: 95 % interval for new sentences and, with several runs, new trainings."
TIMES = (
    "Training: time in the log, summed if the run was interrupted and resumed. Translating: time "
    "reported by fairseq-generate for all test sets, on a machine that is not recorded. With "
    "several runs: mean, and in brackets minimum and maximum."
)
CHOICES = (
    "These are options of fairseq-train, without dashes. updates is max-update, batch-tokens is "
    "the number of tokens per update over all processes, and the trees `own` are those of the "
    "data, without a control."
)
ENERGY = (
    "Mean per training run: energy of the processors, as counted by Linux, and of the GPUs, from "
    "the power that nvidia-smi reports. Both include other programs that ran on the same "
    "processor or GPU, and exclude memory, disks and cooling."
)
TRANSLATING = "averaged, beam and lenpen are options of translation."
Section = Iterator[str]
Cells = list[str | Marked]


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
    if facts.plan.from_study:
        yield from ("", KEPT)
    for title, section in SECTIONS.items():
        if found := list(section(facts)):
            yield from ("", f"## {title}", "", *found)


def models(facts: Facts) -> Section:
    """Yield a table of the models with scores and, if trained here, parameters and times."""
    is_whole = not facts.plan.from_study
    head = ["model", "size", "runs", *facts.tests]
    head += ["parameters", "training", "translating"] if is_whole else []
    rows = []
    for line in facts.lines:
        runs = facts.of_system[line.row.system]
        seeds = ", ".join(str(run.record.seed) for run in runs)
        row: Cells = [Marked(line.row.title, is_code=True), line.row.size]
        row += [f"{len(runs)} (seeds {seeds})", *map(bounded, line.cells.values())]
        if is_whole:
            parameters = line.training.parameters if line.training else None
            row.append(f"{parameters:,}" if parameters else NONE)
            row.append(times(list(map(training_seconds, runs))))
            row.append(times(list(map(facts.translating, runs))))
        rows.append(row)
    yield from markdown([Table("", head, rows, [f"{BOUNDS} {TIMES}" if is_whole else BOUNDS])])


def bounded(cell: Cell) -> str:
    if cell.system is None or cell.main is None:
        return NONE
    ends = known(cell.main.interval)
    shown = f" ({ends[0]:.2f} to {ends[1]:.2f})" if ends else ""
    return f"{cell.system.main_score} {cell.main.score:.2f}{shown}"


def times(seconds: Sequence[float | None]) -> str:
    """Format the mean and the range of durations; return NONE unless all of them are known."""
    found = [one for one in seconds if one is not None]
    if not found or len(found) < len(seconds):
        return NONE
    bounds = f" ({duration(min(found))} to {duration(max(found))})" if len(found) > 1 else ""
    return duration(mean(found)) + bounds


def machines(facts: Facts) -> Section:
    if facts.plan.from_study:
        return
    found: dict[tuple[str, ...], dict[str, Run]] = {}
    unknown = {run.name: run for run in facts.runs}
    for run, start in facts.starts():
        found.setdefault(cells_of(start), {})[run.name] = run
        unknown.pop(run.name, None)
    if found:
        head = ["processor", "cores", "memory", "GPUs", "processes", "precision", "runs"]
        rows = [[*cells, named(facts, list(runs.values()))] for cells, runs in found.items()]
        note = (
            "Machines on which training started; a run that resumed elsewhere is in several rows."
        )
        yield from markdown([Table("", head, rows, [note])])
    if unknown:
        yield from [""] if found else []
        runs = named(facts, list(unknown.values()))
        yield f"The machine is unknown for these runs: {runs}."


def cells_of(start: Start) -> tuple[str, ...]:
    counts = Counter(start.gpus)
    gpus = ", ".join(f"{count} × {name}" for name, count in counts.items()) or "none"
    threads = f", threads of each: {start.threads}" if start.threads else ""
    about = (start.processor, str(start.cores), size_of(start.memory), gpus)
    return (*about, f"{start.processes}{threads}", start.precision)


def named(facts: Facts, runs: Sequence[Run]) -> str:
    if len(runs) == len(facts.runs):
        return "all"
    seeds: dict[str, list[str]] = {}
    for run in runs:
        seeds.setdefault(run.record.system, []).append(str(run.record.seed))
    return "; ".join(f"{system} seed {', '.join(found)}" for system, found in seeds.items())


def energy(facts: Facts) -> Section:
    """Yield a table of the energy consumption, or nothing if no run was measured."""
    rows: list[Cells] = []
    for line in facts.lines:
        runs = facts.of_system[line.row.system]
        found = [one for run in runs if (one := energy_in(run.folder))]
        if found and not facts.plan.from_study:
            row: Cells = [Marked(line.row.title, is_code=True), line.row.size]
            row += [f"{len(found)} of {len(runs)}", kilowatt_hours([e.processors for e in found])]
            row += [kilowatt_hours([e.gpus for e in found]), times([e.seconds for e in found])]
            rows.append(row)
    if rows:
        head = ["model", "size", "runs", "processors", "GPUs", "metered"]
        yield from markdown([Table("", head, rows, [ENERGY])])


def kilowatt_hours(joules: Sequence[float | None]) -> str:
    """Format the mean energy; return NONE unless all values are known."""
    found = [one for one in joules if one is not None]
    return f"{mean(found) / 3.6e6:.3g} kWh" if found and len(found) == len(joules) else NONE


def hyper_parameters(facts: Facts) -> Section:
    """Yield tables of the options that models share and of the others, and how they were chosen."""
    chosen = [facts.choices(line) for line in facts.lines]
    names = dict.fromkeys(name for of_model in chosen for name in of_model)
    shared = [name for name in names if len({one.get(name) for one in chosen}) == 1]
    rows: list[Cells] = [[Marked(n, is_code=True), chosen[0][n] or "yes"] for n in shared]
    tables = [Table("All models", ["option", "value"], rows)] if shared else []
    if len(shared) < len(names):
        rows = []
        for line, of_model in zip(facts.lines, chosen, strict=True):
            own = [f"{name} {value}".strip() for name, value in of_model.items()]
            own = [text for text, name in zip(own, of_model, strict=True) if name not in shared]
            title = Marked(line.row.title, is_code=True)
            rows.append([title, line.row.size, Marked("; ".join(own), is_code=True)])
        tables.append(Table("What differs", ["model", "size", "options"], rows))
    note = CHOICES if facts.plan.from_study else f"{CHOICES} {TRANSLATING}"
    yield from (*markdown(tables), "", note, "")
    yield told_by_recipe("How they were chosen", facts.place.content.chosen, "chosen")


def told_by_recipe(what: str, told: str, key: str) -> str:
    if told:
        return f"{what}: {visible(told)}"
    return f"{what}: unknown; state it as `{key}` in recipe.toml."


def data(facts: Facts) -> Section:
    place, corpus = facts.place, facts.place.content.corpus
    roles = {corpus.train: "training", corpus.valid: "validation"}
    rows = []
    for name in corpus.names:
        path = place.raw / f"{name}.{place.content.source}"
        count = f"{count_lines(path):,}" if path.is_file() else NONE
        rows.append([name, roles.get(name, "test"), count])
    notes = []
    if pairs := facts.pairs():
        notes.append(f"The models were trained on {pairs:,} of the training sentences.")
    if words := facts.words():
        notes.append(f"The target side of the training set has {words:,} words, as BLEU counts.")
    yield from markdown(
        [Table("", ["text", "split", "sentences"], rows, [" ".join(notes)] if notes else [])]
    )
    yield from ("", told_by_recipe("Licence", corpus.licence, "corpus.licence"), "")
    yield from markdown([checksums(facts)])


def checksums(facts: Facts) -> Table:
    """Return a table of the training files and test sets with their checksums."""
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
    content = facts.place.content
    for test in content.corpus.tests:
        for path in (facts.place.raw / f"{test}.{one}" for one in (content.source, content.target)):
            if path.is_file():
                about = fingerprint_of(path)
                rows.append([path.name, str(about["bytes"]), about["sha256"]])
    return Table("", ["file", "bytes", "SHA-256"], rows)


def versions(facts: Facts) -> Section:
    """Yield the versions of the programs used for training and scoring."""
    systems = [system for line in facts.lines for system in line.systems]
    found: dict[str, dict[str, None]] = {
        "fairseq_posattn, training": dict.fromkeys(facts.versions()),
        "fairseq_posattn, scores": {system.code: None for system in systems if system.code},
    }
    for _, start in facts.starts():
        for name, version in start.versions.items():
            found.setdefault(name, {})[version] = None
    signatures = (score.signature for system in systems for score in system.scores.values())
    told = (SACREBLEU.search(signature) for signature in signatures)
    found["sacrebleu"] = {match[1]: None for match in told if match}
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
    "Energy": energy,
    "Hyper-parameters": hyper_parameters,
    "Data": data,
    "Versions": versions,
    "Commands": commands,
}
