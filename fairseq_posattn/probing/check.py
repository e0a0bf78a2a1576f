"""Check probing tasks for errors that make accuracies meaningless.

Such errors occur in public data sets: identical dev and test sets, sentences that occur in two
splits, or labels so unbalanced that always predicting the majority label is accurate.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.probing.tasks import (
    NAMES,
    SPLITS,
    TASKS,
    Example,
    ProbingTask,
    read_examples,
    task_called,
)

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
