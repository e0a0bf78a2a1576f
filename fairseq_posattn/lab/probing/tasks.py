"""Define the probing tasks, their files, and the published accuracies.

All tasks except TopRelations are those of Conneau et al. (2018), "What you can cram into a single
vector". TopRelations is the dependency-tree counterpart of TopConst, which requires
constituents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fairseq_posattn.errors import InputError

GROUPS = ("surface", "syntax", "semantics")
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
    published: Sequence[float] = field(default_factory=tuple)
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
        ProbingTask(
            "Tense", "past_present", "semantics", (89.24, 88.74, 89.30), labels="PAST PRES"
        ),
        ProbingTask("SubjNum", "subj_number", "semantics", (84.69, 87.00, 85.47), labels="NN NNS"),
        ProbingTask("ObjNum", "obj_number", "semantics", (84.53, 85.53, 84.94), labels="NN NNS"),
        ProbingTask(
            "SOMO",
            "odd_man_out",
            "semantics",
            (52.13, 51.68, 52.90),
            changes_words=True,
            labels="C O",
        ),
        ProbingTask(
            "CoordInv",
            "coordination_inversion",
            "semantics",
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
