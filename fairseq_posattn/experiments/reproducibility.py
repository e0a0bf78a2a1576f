"""Write reproducibility.md, a checklist made from recipe.toml and from the records of the runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from shlex import join

from fairseq_posattn.experiments.runs import AGAIN, RECORD, Run, RunRecord
from fairseq_posattn.experiments.study import StoredRecord
from fairseq_posattn.experiments.workspace import Workspace
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import count_lines
from fairseq_posattn.files.records import read_record
from fairseq_posattn.files.terminal import visible
from fairseq_posattn.scoring.tables import NONE, Cell, Table, markdown

PAGE, PREPARED = "reproducibility.md", "data.called"
OPTIONS = (
    "These are options of fairseq-train. updates is max-update, batch-tokens is the number of "
    "tokens per update over all processes, and the trees `own` are those of the data, without a "
    "control. averaged, beam and lenpen are options of translation."
)


def note_preparing(setup: Workspace) -> None:
    """Record the command line that prepared the data."""
    with written_whole(setup.work / PREPARED) as file:
        file.write(f"{called()}\n")


def write_checklist(setup: Workspace, runs: Sequence[Run]) -> None:
    paths = [(run, run.folder / RECORD) for run in runs]
    records = [  # run.json lists all machines and versions; stored runs have no such file
        read_record(RunRecord, path, AGAIN) if path.exists() else run.record for run, path in paths
    ]
    tables = [
        Table(
            "Runs",
            ["run", "machine", "version"],
            [
                [run.name, *("; ".join(names) or NONE for names in (one.machines, one.versions))]
                for run, one in zip(runs, records, strict=True)
            ],
        ),
        *option_tables(setup, [run.record for run in runs]),
        text_table(setup),
        file_table(records),
    ]
    with written_whole(setup.work / PAGE) as file:
        print(f"# {visible(setup.content.title)}: how to repeat it\n", file=file)
        print(*markdown(tables), "", "Commands:", "", "```bash", sep="\n", file=file)
        print(*commands(setup), "```", sep="\n", file=file)


def option_tables(setup: Workspace, records: Sequence[RunRecord]) -> Iterator[Table]:
    """Yield a table of the options that all models share, and one of those that differ."""
    chosen = [options_of(setup, record) for record in records]
    shared = dict(item for item in chosen[0].items() if all(item in one.items() for one in chosen))
    notes = [OPTIONS, from_recipe("How they were chosen", setup.content.chosen, "chosen")]
    rows: list[list[str | Cell]]
    rows = [[Cell(name, is_code=True), value or "yes"] for name, value in shared.items()]
    yield Table("Options of all models", ["option", "value"], rows, notes)
    own: dict[str, dict[tuple[str, ...], None]] = {}  # model -> the different options of its runs
    for record, one in zip(records, chosen, strict=True):
        options = tuple(f"{k} {v}".strip() for k, v in one.items() if k not in shared)
        own.setdefault(record.system, {})[options] = None
    rows = [
        [Cell(system, is_code=True), Cell("; ".join(options), is_code=True)]
        for system, of_runs in own.items()
        for options in of_runs
    ]
    if any(options for of_runs in own.values() for options in of_runs):
        yield Table("Options that differ", ["model", "options"], rows)


def options_of(setup: Workspace, record: RunRecord) -> dict[str, str]:
    """Return the options of a run, by name without leading dashes."""
    decoding: Mapping[str, float]
    if isinstance(record, StoredRecord):
        decoding = record.translated
    else:
        decoding = setup.decoding(record.size)
    options = {name.removeprefix("--"): " ".join(v) for name, v in record.choices().items()}
    return {**options, **{name: f"{value:g}" for name, value in decoding.items()}}


def from_recipe(what: str, told: str, key: str) -> str:
    return f"{what}: {visible(told) or f'unknown; state it as `{key}` in recipe.toml.'}"


def text_table(setup: Workspace) -> Table:
    corpus = setup.content.corpus
    roles, rows = {corpus.train: "training", corpus.valid: "validation"}, []
    for name in corpus.names:
        path = setup.raw / f"{name}.{setup.content.source}"
        count = f"{count_lines(path):,}" if path.is_file() else NONE
        rows.append([name, roles.get(name, "test"), count])
    licence = from_recipe("Licence", corpus.licence, "corpus.licence")
    return Table("Texts", ["text", "split", "sentences"], rows, [licence])


def file_table(records: Sequence[RunRecord]) -> Table:
    """Return a table of all files that were read in training."""
    found = {
        (name, record.trees, str(about.get("bytes", NONE)), str(about.get("sha256", NONE))): None
        for record in records
        for name, about in record.files.items()
    }
    return Table("Files", ["file", "trees", "bytes", "SHA-256"], [list(row) for row in found])


def commands(setup: Workspace) -> list[str]:
    noted = setup.work / PREPARED
    prepared = f"posattn recipe prepare {setup.recipe.called} # with unknown options"
    if noted.exists():
        prepared = noted.read_text(encoding="utf-8").strip()
    return [visible(prepared), visible(called())]


def called() -> str:
    """Return the command line of the step that is running."""
    return join(["posattn", "recipe", *sys.argv[1:]])
