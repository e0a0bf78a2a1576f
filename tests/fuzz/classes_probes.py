"""Probing tasks with vectors made elsewhere, tasks.json, and the results of posattn probe."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from fairseq_posattn.files.records import as_document
from fairseq_posattn.probing.results import (
    Accuracy,
    HeadAgreement,
    PlaceOffset,
    ProbedTask,
    Probes,
    RelationHead,
    Treebank,
    WordProbe,
    packed_bits,
)

from .classes_logs import write
from .classes_report import SYSTEMS, system
from .corpora import WORDS
from .mutations import COLUMNS, JSON
from .registry import Command, add, program

SPLITS = ("tr", "tr", "tr", "tr", "tr", "tr", "va", "va", "te", "te")
MADE = {
    "version": "1",
    "trees": "gold",
    "settings": {"seed": 1},
    "corpora": [{"name": "a", "bytes": 1, "sha256": "0"}],
    "left_out": {"too short": 1},
    "tasks": {
        "SentLen": {"sentences": 10, "classes": 2, "splits": {"tr": 6}, "left_out": {"none": 1}}
    },
    "refused": {"BShift": "there are no bigrams"},
}


def tasks(folder: Path) -> None:
    lines = [line for line in WORDS * 2 if line]
    rows = [f"{s}\t{k % 2}\t{line}" for k, (s, line) in enumerate(zip(SPLITS, lines, strict=False))]
    random = Random(1)
    numbers = [" ".join(f"{random.gauss(0, 1):.4f}" for _ in range(3)) for _ in rows]
    write(folder / "tasks/sentence_length.txt", "".join(f"{row}\n" for row in rows))
    write(folder / "vectors/sentence_length.txt", "".join(f"{row}\n" for row in numbers))
    write(folder / "tasks/tasks.json", json.dumps(MADE))
    (folder / "tasks/trees").mkdir()


def probing(folder: Path) -> Command:
    options = ["--vectors", f"x={folder / 'vectors'}", "--tasks", folder / "tasks", "--cpu"]
    options += ["--task", "SentLen", "--classifier", "linear", "--json", folder / "out.json"]
    return Command(program("probe"), options)


add(
    "probing tasks, and vectors made elsewhere",
    tasks,
    "tasks/*.txt vectors/*.txt",
    COLUMNS,
    "out.json out.work/*",
    left="out.work/*",
    share=0.3,
)(probing)


def read_kind(folder: Path) -> None:
    """What probing does first with a model that reads trees."""
    from fairseq_posattn.probing.request import ProbeRequest
    from fairseq_posattn.probing.task_probing import TaskProbing

    where, work = folder / "tasks", folder / "work"
    request = ProbeRequest(data=None, tasks=where, trees=where / "trees", work=work)
    probes = TaskProbing(request)
    assert probes.kind_given in ("gold", "parsed")
    assert all(task.described for task in probes.labelled())


@add("tasks.json", tasks, "tasks/tasks.json", JSON)
def reading_kind(folder: Path) -> Command:
    return Command(lambda: read_kind(folder))


# the results


def probes() -> Probes:
    """One of each kind of figure."""
    import numpy as np

    of = {"system": "a|b", "run": 0, "model": "0", "kind": "trained", "trees": "gold"}
    task = {"train": 6, "dev": 2, "test": 9, "classes": 2, "majority": 50.0}
    hits = packed_bits(np.array([True, False, True] * 3))
    figures = {"uuas": 50.0, "spearman": 0.5}
    looks = {"parent": 50.0, "child": 25.0, "previous": 12.5, "next": 10.0}
    head = {"layer": 0, "head": 0}
    offset = {"direction": "parent", "relation": "nsubj", "words": 9, "of_heads": [[50.0]]}
    accuracy = {"task": "SentLen", "layer": "top", "seed": 1, "setting": "x", "dev": 50.0}
    described = ProbedTask(**task, sha256="0", source="made")
    treebank = {"first": 0, "train": 6, "dev": 2, "test": 9, "words": 30, "rank": 0}
    return Probes(
        version="1",
        classifier="linear",
        pooling="mean",
        tasks={"SentLen": described},
        accuracies=[
            Accuracy(**{**of, "kind": kind}, **accuracy, test=66.7, correct=hits)
            for kind in ("trained", "untrained")
        ],
        treebank=Treebank(sha256=["0"] * 3, **treebank),
        heads=[HeadAgreement(**of, **head, **looks, dev=looks)],
        offsets=[PlaceOffset(**of, place=p, offset=-1, share=30.0) for p in ("parent", "child")],
        relations=[
            RelationHead(**of, **head, **offset, accuracy=50.0, offset=-1, offset_accuracy=40.0)
        ],
        words=[WordProbe(**of, layer="top", probe="distance", seed=1, figures=figures)],
    )


def found(folder: Path) -> None:
    write(folder / "probes.json", json.dumps(as_document(probes())))
    write(folder / "system.json", json.dumps(system("a", 20.0)))


def shown(folder: Path) -> Command:
    options = ["--results", folder / "probes.json", "--table", folder / "out"]
    return Command(program("probe"), options)


def reported(folder: Path) -> Command:
    files = [folder / "system.json", "--probes", folder / "probes.json"]
    return Command(program("report"), [*files, "--out", folder / "out.html"])


for name, command, outputs, share in (
    ("probes.json: tables", shown, "out.md out.csv out.tex", 1.0),
    ("probes.json: report", reported, "out.html", 0.3),
):
    add(name, found, "probes.json", SYSTEMS, outputs, share=share)(command)
