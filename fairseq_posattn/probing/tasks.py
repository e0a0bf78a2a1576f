"""Define the probing tasks and the published accuracies, and read and write the files of SentEval.

All tasks except TopRelations are those of Conneau et al. (2018), "What you can cram into a single
vector". TopRelations is the dependency-tree counterpart of TopConst, which requires
constituents.

Each line of a file has tab-separated columns. The first column is the split (tr, va or te), the
second is the label, and the last is the sentence, with words separated by spaces. Other columns are
ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines

SPLITS = ("tr", "va", "te")
NAMES = {"tr": "train", "va": "dev", "te": "test"}
SEMANTICS = "semantics"
GROUPS = ("surface", "syntax", SEMANTICS)
SYSTEMS = ("Base", "+ relative", "+ structural")  # Wang et al. 2019, Table 3


@dataclass(frozen=True)
class ProbingTask:
    """A probing task.

    name: the name in tables and on the command line.
    file: the name of its file, without .txt.
    group: surface, syntax or semantics; "" for tasks that the published averages exclude.
    published: the published accuracies of SYSTEMS.
    changes_words: whether some sentences are modified, so that the trees of the corpus do not
        match.
    told_by_trees: whether the tree reveals the label to a model that reads it.
    labels: the labels in SentEval's file, or their number; 0 if unknown.
    """

    name: str
    file: str
    group: str
    published: Sequence[float] = ()
    changes_words: bool = False
    told_by_trees: bool = False
    labels: str | int = 0

    def is_of_senteval(self, labels: Collection[str]) -> bool:
        """Return whether a file with these labels could be SentEval's own file."""
        if isinstance(self.labels, int):
            return not self.labels or len(labels) == self.labels
        return set(labels) == set(self.labels.split())


TASKS = {
    task.name: task
    for task in (
        ProbingTask("SentLen", "sentence_length", "surface", (92.20, 89.82, 89.54), labels=6),
        ProbingTask("WC", "word_content", "surface", (63.00, 63.17, 62.90), labels=1000),
        ProbingTask("TreeDepth", "tree_depth", "syntax", (44.74, 45.09, 46.12), told_by_trees=True),
        ProbingTask("TopConst", "top_constituents", "syntax", (79.02, 78.45, 79.12), labels=20),
        ProbingTask("TopRelations", "top_relations", "", told_by_trees=True),
        ProbingTask(
            "BShift",
            "bigram_shift",
            "syntax",
            (71.24, 71.40, 72.36),
            changes_words=True,
            labels="I O",
        ),
        ProbingTask("Tense", "past_present", SEMANTICS, (89.24, 88.74, 89.30), labels="PAST PRES"),
        ProbingTask("SubjNum", "subj_number", SEMANTICS, (84.69, 87.00, 85.47), labels="NN NNS"),
        ProbingTask("ObjNum", "obj_number", SEMANTICS, (84.53, 85.53, 84.94), labels="NN NNS"),
        ProbingTask(
            "SOMO",
            "odd_man_out",
            SEMANTICS,
            (52.13, 51.68, 52.90),
            changes_words=True,
            labels="C O",
        ),
        ProbingTask(
            "CoordInv",
            "coordination_inversion",
            SEMANTICS,
            (62.47, 62.21, 62.99),
            changes_words=True,
            labels="I O",
        ),
    )
}


def task_called(name: str) -> ProbingTask:
    """Return the task with this name or file name; raise an InputError if there is none."""
    for task in TASKS.values():
        if name in (task.name, task.file, f"{task.file}.txt"):
            return task
    raise InputError(f"there is no probing task '{name}'; choose one of: {' '.join(TASKS)}")


class Example(NamedTuple):
    """A labelled sentence of a split (tr, va or te)."""

    split: str
    label: str
    words: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read_examples(path: str | Path) -> Iterator[Example]:
    """Yield the examples in a file; raise an InputError for a malformed line."""
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.rstrip().split("\t")
        if len(columns) < 3:
            raise InputError(
                f"{path}:{number}: the line has {len(columns)} column(s); write a split, a label "
                "and a sentence, separated by tabs"
            )
        if columns[0] not in SPLITS:
            raise InputError(f"{path}:{number}: the split is '{columns[0]}'; write tr, va or te")
        words = columns[-1].split()
        if not words:
            raise InputError(f"{path}:{number}: the line has no sentence; remove it")
        if not columns[1]:
            raise InputError(f"{path}:{number}: the line has no label; write it after the split")
        yield Example(columns[0], columns[1], words)
    if not number:
        raise InputError(f"{path} is empty; use a folder with complete files of probing tasks")


def write_examples(file: TextIO, examples: Iterable[Example]) -> None:
    for example in examples:
        file.write(f"{example.split}\t{example.label}\t{example.text}\n")
