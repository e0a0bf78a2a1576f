"""Define the probing tasks, read and write their files in SentEval's format, and check them.

All tasks except TopRelations are those of Conneau et al. (2018), "What you can cram into a single
vector". TopRelations is the dependency-tree counterpart of TopConst, which requires
constituents.

Each line of a file has tab-separated columns. The first column is the split (tr, va or te), the
second is the label, and the last is the sentence, with words separated by spaces. Other columns are
ignored.

Public data sets contain errors that make accuracies meaningless: identical dev and test sets,
sentences that occur in two splits, or labels so unbalanced that always predicting the majority
label is accurate.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
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


TOLERANCE = 1.25  # largest admissible ratio of the most frequent label to an even share
UNEVEN = ("TreeDepth", "WC")  # unbalanced in SentEval's own files, so not counted as a fault
GAP = "\0"  # replaces the word in which two sentences may differ
SAME_WORDS = ("BShift", "CoordInv")  # changed sentences are permutations of the original
ONE_WORD = ("SOMO",)  # changed sentences differ from the original in one word
Parts = dict[str, list[Example]]  # the sentences of each split


def check_folder(folder: Path, names: Sequence[str] | None, tell: Callable[[str], object]) -> int:
    """Check the tasks called `names`, or all tasks of a folder, and return the number of faults.

    tell: a function that is called with each line of the report.
    """
    total = 0
    for task in tasks_in(folder, names):
        examples = list(read_examples(folder / f"{task.file}.txt"))
        labels = {example.label for example in examples}
        parts = {split: [e for e in examples if e.split == split] for split in SPLITS}
        found, remarks = list(faults(task, examples, parts, labels)), list(uneven(parts, labels))
        if task.name not in UNEVEN:
            found, remarks = [*remarks, *found], []
        verdict = f"{len(found)} fault(s)" if found else "no fault"
        tell(f"{task.name}: {len(examples):,} sentences, {len(labels)} classes, {verdict}")
        for fault in found:
            tell(f"  {fault}")
        for remark in remarks:
            tell(f"  {remark} (as in SentEval's own file, so this is not counted as a fault)")
        total += len(found)
    return total


def tasks_in(folder: Path, names: Sequence[str] | None) -> list[ProbingTask]:
    """Return the tasks called `names`, or all tasks in a folder.

    Raises InputError if a file is missing.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; specify a folder with probing tasks")
    chosen = [task_called(name) for name in names] if names else list(TASKS.values())
    found = [task for task in chosen if (folder / f"{task.file}.txt").is_file()]
    if names and (missing := [task for task in chosen if task not in found]):
        raise InputError(
            f"{folder} contains no {missing[0].file}.txt for {missing[0].name}; add this file, or "
            "leave out the task"
        )
    if not found:
        files = ", ".join(f"{task.file}.txt" for task in TASKS.values())
        raise InputError(
            f"{folder} contains no probing task; specify a folder with at least one of {files}"
        )
    return found


def faults(
    task: ProbingTask, examples: Sequence[Example], parts: Parts, labels: set[str]
) -> Iterator[str]:
    texts = {s: Counter(example.text.lower() for example in part) for s, part in parts.items()}
    for split, part in parts.items():
        name = NAMES[split]
        if not part:
            yield f"{name} contains no sentences"
        elif absent := sorted(labels - {example.label for example in part}):
            yield f"{len(absent)} label(s) do not occur in {name}, such as {absent[0]}"
        if twice := [text for text, count in texts[split].items() if count > 1]:
            yield f"{len(twice):,} sentence(s) occur more than once in {name}, such as: {twice[0]}"
    if len(labels) < 2:
        yield "all sentences have the same label"
    for first, second in combinations(SPLITS, 2):
        both, shared = f"{NAMES[first]} and {NAMES[second]}", texts[first].keys() & texts[second]
        if shared and texts[first].keys() == texts[second].keys():
            yield f"{both} consist of the same sentences"
        elif shared:
            yield f"{both} share {len(shared):,} sentence(s), such as: {min(shared)}"
    yield from both_forms(task, examples)


def uneven(parts: Parts, labels: set[str]) -> Iterator[str]:
    """Yield a message for each split in which one label is much more frequent than the others."""
    for split, part in parts.items():
        if not part:
            continue
        counts = Counter(example.label for example in part)
        label, most = min(counts.items(), key=lambda item: (-item[1], item[0]))
        even = len(part) / len(labels)
        by_chance = (2 * math.log(len(labels)) * even) ** 0.5  # expected maximum of the deviations
        if most > TOLERANCE * even + by_chance + 1:
            yield (
                f"the label {label} has {most:,} of the {len(part):,} sentences in {NAMES[split]};"
                f" an even share would be {even:,.0f}"
            )


def both_forms(task: ProbingTask, examples: Sequence[Example]) -> Iterator[str]:
    alike: dict[tuple[str, ...], list[Example]] = defaultdict(list)
    for example in examples:
        for key in keys(task, example):
            alike[key].append(example)
    texts: dict[str, set[str]] = defaultdict(set)  # by label; sets, as a sentence has several keys
    first = ""
    for of_key in alike.values():
        if len({example.label for example in of_key}) > 1:
            first = first or of_key[0].text
            for example in of_key:
                texts[example.label].add(example.text)
    both = min(map(len, texts.values()), default=0)
    # unrelated sentences may differ in one word by chance: "It is red." and "It is new."
    by_chance = len(examples) // 1000 if task.name in ONE_WORD else 0
    if both > by_chance:
        yield f"{both:,} sentence(s) may occur both unchanged and changed, such as: {first}"


def keys(task: ProbingTask, example: Example) -> Iterator[tuple[str, ...]]:
    """Yield keys, at least one of which a sentence and its changed form have in common."""
    words = [word.lower() for word in example.words]
    if task.name in SAME_WORDS:
        yield tuple(sorted(words))
    elif task.name in ONE_WORD:
        for place in range(len(words)):
            yield (*words[:place], GAP, *words[place + 1 :])
