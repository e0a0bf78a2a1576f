"""Say what is to be probed, from Python or on the command line of posattn probe."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import not_negative, option, positive
from fairseq_posattn.io.numbers import plain_number

TOP, ALL, MIX = "top", "all", "mix"


def layer(text: str) -> str:
    """Read the number of a layer, top, all or mix."""
    number = plain_number(text)
    if text not in (TOP, ALL, MIX) and (number is None or number < 0):
        raise ArgumentTypeError(f"expected a number, top, all or mix, found '{text}'")
    return text


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """This is a request to probe models, or to show results; each field is an option of
    posattn probe."""

    data: str | None = option(
        "segment sentences as these binarised data", metavar="DATA", nargs="?"
    )
    path: list[str] = option(
        "probe the model of each checkpoint; checkpoints with the same name are runs of a system "
        "(without NAME=, the name is that of the folder, or of the file where one folder has "
        "several)",
        *([], "", "NAME=PT"),
    )
    vectors: list[str] = option(
        "probe vectors of another toolkit, too: FOLDER/TASK.txt has a line of numbers for each "
        "line of the task",
        *([], "", "NAME=FOLDER"),
    )
    tasks: Path | None = option("read the tasks in this folder", None, metavar="FOLDER", type=Path)
    task: list[str] | None = option(
        "take only these tasks of the folder (default: all)", None, metavar="NAME"
    )
    trees: Path | None = option(
        "take the trees of TASK.txt from FOLDER/TASK.conllu, plain or packed (default: parse the "
        "sentences); tasks that change words are parsed if the folder has no trees for them",
        *(None, "", "FOLDER"),
        type=Path,
    )
    trees_are: str | None = option(
        "say whether people or a parser made the trees of --trees (default: as tasks.json says, "
        "for the trees beside the tasks)",
        None,
        choices=("gold", "parsed"),
    )
    pooling: str = option(
        "make the vector of a sentence from its pieces: their mean (default) or maximum, the last "
        "piece, or the end of the sentence",
        "mean",
        choices=("mean", "max", "last", "end"),
    )
    layer: str = option(
        "probe this layer, where 0 is the input of the first one; or top (default), all (one "
        "probe for each layer), or mix (the classifier learns weights of the layers)",
        TOP,
        type=layer,
    )
    classifier: str = option(
        "train SentEval's classifier: as its code does (default), or as its README says (mlp); or "
        "a linear one without tuning",
        "senteval",
        choices=("senteval", "mlp", "linear"),
    )
    seeds: list[int] = option(
        "train the classifier with each of these seeds (default: 1111)",
        [1111],
        type=not_negative,
    )
    heads: list[str] | None = option(
        "probe words and attention heads against the trees of these CoNLL-U files, and not "
        "sentences for tasks: what heads look at, structural probes (Hewitt and Manning 2019), and "
        "labels of words with a control task (Hewitt and Liang 2019)",
        *(None, "", ("TRAIN", "DEV", "TEST")),
        nargs=3,
    )
    gold: bool = option(
        "--heads: let models read the trees of these files (default: parse their sentences)", False
    )
    rank: int = option(
        "--heads: map vectors to N dimensions in structural probes (default: their width)",
        0,
        type=positive,
    )
    first: int = option("--heads: read only the first N sentences of each file", 0, type=positive)
    no_untrained: bool = option("leave out the untrained models", False)
    json: Path | None = option("write all accuracies to this file", None, type=Path)
    work: Path | None = option(
        "keep vectors and parsed sentences in this folder (default: that of --json and .work)",
        *(None, "", "FOLDER"),
        type=Path,
    )
    workers: int = option("parse with N processes at once (default: %(default)s)", 1, type=positive)
    results: list[str] = option("show the accuracies in these files as well", [], "", "JSON")
    table: str | None = option(
        "write the tables to START.md, START.csv and START.tex", None, "", "START"
    )
    fairseq_task: str | None = option(
        "load the model with this task of fairseq (default: that of its training)", None, "", "TASK"
    )
    bpe: str | None = option(
        "segment words with these codes of subword-nmt, or with this .model of sentencepiece, if "
        "posattn prepare did not make DATA (default: as in the training)",
        *(None, "", "FILE"),
    )
    moses: str | None = option(
        "split the text with Moses before that, as text of LANGUAGE (default: as in the training)",
        *(None, "", "LANGUAGE"),
    )
    user_dir: str | None = option(
        "import classes of your own that the model has", None, "", "FOLDER"
    )
    cpu: bool = option("use the CPU even where there is a GPU", False)

    @property
    def kept(self) -> Path:
        """Return the folder in which vectors and parsed sentences are kept."""
        if self.work or not self.json:
            return self.work or Path(".work")
        return self.json.with_suffix(".work")

    def refuse_incomplete(self) -> None:
        """Refuse a request that lacks what it needs, or has what would have no effect."""
        if not (self.path or self.vectors or self.results):
            raise InputError(
                "name models with --path, vectors with --vectors, or --results to show"
            )
        if (self.path or self.vectors) and not ((self.tasks or self.heads) and self.json):
            raise InputError("probing needs --tasks FOLDER or --heads, and --json FILE")
        if self.path and not self.data:
            raise InputError("name the data with which the models were trained before --path")
        if self.heads and (self.tasks or self.vectors or self.trees):
            raise InputError("--heads takes no --tasks, --trees and --vectors; start both apart")
        if self.heads and self.layer == MIX:
            raise InputError("--heads has no --layer mix; choose a number, top or all")
        of_tasks = "task trees trees_are pooling classifier"
        of_both = "json work workers no_untrained layer seeds bpe moses"
        plain = ProbeRequest(data=None)
        for kind, chosen, names in (
            ("--heads", self.heads, "gold rank first"),
            ("--tasks", self.tasks, of_tasks),
            ("--tasks or --heads", self.heads or self.tasks, of_both),
        ):
            for name in names.split() if not chosen else ():
                if getattr(self, name) != getattr(plain, name):
                    acting = "--" + name.replace("_", "-")
                    raise InputError(f"{acting} acts with {kind} only; leave it out")
        if self.trees_are and not self.trees:
            raise InputError("--trees-are says what the trees of --trees are; name their folder")


class Named(NamedTuple):
    """This is a training of a system: a checkpoint, or a folder of vectors."""

    system: str
    run: int
    path: Path


def named(words: Sequence[str]) -> list[Named]:
    """Return the trainings that the words name, as NAME=PATH or PATH."""
    found: list[Named] = []
    bare = [Path(word).absolute() for word in words if "=" not in word or Path(word).exists()]
    folders = Counter(path.parent for path in bare if not path.is_dir())
    for word in words:
        name, _, path = word.partition("=")
        whole = Path(word).absolute()
        if whole in bare:
            is_alone = folders[whole.parent] < 2
            name = whole.name if whole.is_dir() else whole.parent.name if is_alone else whole.stem
            path = word
        if not name or not path:
            raise InputError(f"{word}: write NAME=PATH")
        run = sum(one.system == name for one in found)
        found.append(Named(name, run, Path(path)))
    return found
