"""These inputs are binary data of translation: fairseq's files, trees beside them, dictionaries."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .corpora import copy_binarised, copy_labelled
from .mutations import COLUMNS, OFFSETS
from .registry import Command, add, calling, content

PREFIX = "data/train.de-en"


@cache
def configuration():
    from support.in_process import configured

    return configured(Path("unused"), "-s", "de", "-t", "en", "--num-workers", "0").task


def read_all(folder: Path, labels: bool = False) -> None:
    """What a training reads: every batch of a set, with its trees."""
    from copy import deepcopy

    from fairseq import tasks

    cfg = deepcopy(configuration())
    cfg.data = str(folder / "data")
    task = tasks.setup_task(cfg)
    task.needs_trees = True
    if labels:
        task.needs_labels = {"relations", "tags"}
        task.label_sizes(task.needs_labels)
    task.load_dataset("train")
    dataset = task.dataset("train")
    found = []
    for k in range(0, len(dataset), 3):
        batch = dataset.collater([dataset[j] for j in range(k, min(k + 3, len(dataset)))])
        found.append(str((batch["net_input"], batch["target"])))
    (folder / "out").write_text("\n".join(found))


def add_binarised(name: str, build=copy_binarised, **options) -> None:
    options = {"mutations": OFFSETS, "outputs": "out", **options}
    add(name, build, **options)(calling(read_all))


add_binarised("tree.idx", damaged=f"{PREFIX}.de.tree.idx", result=content("out"))
add(
    "trees with labels, and their dictionaries",
    copy_labelled,
    f"{PREFIX}.de.tree.idx {PREFIX}.de.tree.bin data/dict.de.*s.txt",
    OFFSETS,
    "out",
    result=content("out"),
    also_named="train.de-en.de.tree.idx dict.de.relations.txt dict.de.tags.txt",
)(lambda folder: Command(lambda: read_all(folder, labels=True)))
add_binarised("tree.bin", damaged=f"{PREFIX}.de.tree.bin", result=content("out"), share=0.5)
add_binarised(
    "source .bin and .idx",
    damaged=f"{PREFIX}.de.idx {PREFIX}.de.bin",
    result=content("out"),  # the trees know what they were made for
    also_named="train.de-en.de.bin train.de-en.de.idx train.de-en.de.tree.idx",
)
add_binarised(
    "target .bin and .idx",
    damaged=f"{PREFIX}.en.idx {PREFIX}.en.bin",
    result=content("out"),
    also_named="train.de-en.en.bin train.de-en.en.idx",
)
add_binarised("dictionaries of translation", damaged="data/dict.*.txt", mutations=COLUMNS)
