"""Define the options of posattn probe, for the command line and for Python."""

from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.numbers import plain_number
from fairseq_posattn.files.records import at_least, one_of, option

TOP, ALL, MIX = "top", "all", "mix"


def layer(text: str) -> str:
    number = plain_number(text)
    if text not in (TOP, ALL, MIX) and (number is None or number < 0):
        raise ArgumentTypeError(f"expected 0 or a larger number, top, all or mix, found '{text}'")
    return text


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """A request to probe models or to show results; each field is an option of posattn probe."""

    command: ClassVar = "posattn probe"
    data: str | None = option(
        "binarised training data of the models; sentences are segmented in the same way",
        None,
        positional=True,
        metavar="DATA",
    )
    path: list[str] = option(
        "checkpoints of the models to probe; those with the same NAME count as runs of one system "
        "(default of NAME: the folder of the checkpoint, or its file name if the folder contains "
        "several of them), e.g. base=a.pt base=b.pt",
        [],
        metavar="NAME=PT",
    )
    vectors: list[str] = option(
        "also probe sentence vectors of other toolkits: FOLDER/TASK.txt contains one line of "
        "space-separated numbers for each line of the task",
        [],
        metavar="NAME=FOLDER",
    )
    tasks: Path | None = option("folder with the tasks", None, metavar="FOLDER")
    task: list[str] | None = option(
        "tasks to use, e.g. SentLen WC (default: all)", None, metavar="NAME"
    )
    trees: Path | None = option(
        "read the trees of TASK.txt from FOLDER/TASK.conllu, which may be compressed (default: "
        "parse the sentences); tasks with changed words are parsed if the folder has no trees",
        None,
        metavar="FOLDER",
    )
    trees_are: str | None = option(
        "origin of the trees in --trees: gold (annotated by people) or parsed (default: as in "
        "tasks.json, if --trees is the subfolder trees of --tasks)",
        None,
        one_of("gold", "parsed"),
    )
    pooling: str = option(
        "how to compute a sentence vector from its pieces: mean (default), max, the last piece, or "
        "the end-of-sentence symbol",
        "mean",
        one_of("mean", "max", "last", "end"),
    )
    layer: str = option(
        "layer to probe: a number (0 is the input of the first layer), top (default), all (one "
        "probe per layer), or mix (the classifier learns a weighted average of the layers)",
        TOP,
        type=layer,
    )
    classifier: str = option(
        "classifier to train: SentEval's as in its code (default) or as in its README (mlp), or a "
        "linear one without hyperparameter tuning",
        "senteval",
        one_of("senteval", "mlp", "linear"),
    )
    seeds: list[int] = option(
        "random seeds to train the classifier with (default: 1111)", [1111], at_least(0)
    )
    heads: list[str] | None = option(
        "probe word vectors and attention heads with the trees of these CoNLL-U files, instead of "
        "--tasks: which words heads attend to, structural probes (Hewitt and Manning 2019), and "
        "word labels with a control task (Hewitt and Liang 2019)",
        None,
        metavar=("TRAIN", "DEV", "TEST"),
        nargs=3,
    )
    gold: bool = option(
        "with --heads: models read the trees in these files (default: parse the sentences)", False
    )
    rank: int = option(
        "with --heads: rank of the structural probes (default: the width of the vectors)",
        0,
        at_least(1),
    )
    first: int = option(
        "with --heads: read only the first N sentences of each file", 0, at_least(1)
    )
    no_untrained: bool = option("do not probe the untrained models", False)
    json: Path | None = option("write all results to this file", None)
    work: Path | None = option(
        "store vectors and parsed sentences in this folder (default: --json with the suffix .work)",
        None,
        metavar="FOLDER",
    )
    workers: int = option("number of parser processes (default: %(default)s)", 1, at_least(1))
    results: list[str] = option("also show the results in these files", [], metavar="JSON")
    table: str | None = option(
        "write the tables to START.md, START.csv and START.tex", None, metavar="START"
    )
    fairseq_task: str | None = option(
        "fairseq task to load the model with (default: its training task)",
        None,
        metavar="TASK",
    )
    bpe: str | None = option(
        "if DATA has no prepare.json, segment words with these subword-nmt codes or this "
        "sentencepiece .model (default: as in training)",
        None,
        metavar="FILE",
    )
    moses: str | None = option(
        "tokenise the text as LANGUAGE with Moses before --bpe (default: as in training)",
        None,
        metavar="LANGUAGE",
    )
    user_dir: str | None = option(
        "import user-defined classes of the model from this folder", None, metavar="FOLDER"
    )
    cpu: bool = option("use the CPU even if a GPU is available", False)

    @property
    def cache(self) -> Path:
        """The folder that caches vectors and parsed sentences."""
        if self.work or not self.json:
            return self.work or Path(".work")
        return self.json.with_suffix(".work")

    def refuse_incomplete(self) -> None:
        """Raise an InputError if an option is missing or would have no effect."""
        if not (self.path or self.vectors or self.results):
            raise InputError(
                "there is nothing to probe or show; use --path, --vectors or --results"
            )
        if (self.path or self.vectors) and not ((self.tasks or self.heads) and self.json):
            raise InputError("--path and --vectors require --json FILE, and --tasks or --heads")
        if self.path and not self.data:
            raise InputError("DATA is missing; give the training data of the models before --path")
        if self.heads and (self.tasks or self.vectors or self.trees):
            raise InputError(
                "--heads cannot be combined with --tasks, --trees or --vectors; run them separately"
            )
        if self.heads and self.layer == MIX:
            raise InputError("--heads does not support --layer mix; choose a number, top or all")
        of_tasks = "task trees trees_are pooling classifier"
        of_both = "json work workers no_untrained layer seeds bpe moses"
        plain = ProbeRequest()
        for kind, chosen, names in (
            ("--heads", self.heads, "gold rank first"),
            ("--tasks", self.tasks, of_tasks),
            ("--tasks or --heads", self.heads or self.tasks, of_both),
        ):
            for name in names.split() if not chosen else ():
                if getattr(self, name) != getattr(plain, name):
                    acting = "--" + name.replace("_", "-")
                    raise InputError(f"{acting} has no effect without {kind}; omit this option")
        if self.trees_are and not self.trees:
            raise InputError("--trees-are has no effect without --trees; add --trees FOLDER")


class Named(NamedTuple):
    """One run of a system: a checkpoint, or a folder of vectors."""

    system: str
    run: int
    path: Path


def named(words: Sequence[str]) -> list[Named]:
    """Parse arguments of the form NAME=PATH or PATH; number the runs of each name from 0."""
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
            raise InputError(f"'{word}' lacks a name or a path; write NAME=PATH")
        run = sum(one.system == name for one in found)
        found.append(Named(name, run, Path(path)))
    return found
