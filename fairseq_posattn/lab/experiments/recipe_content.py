"""Describe what stands in a recipe.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.records import at_least, one_of
from fairseq_posattn.lab.experiments.allowed import (
    NOT_PREPARE,
    NOT_SCORE,
    NOT_TRAINING,
    OUR_OWN,
    PLAIN,
    Options,
    are_plain,
    check_options,
    is_plain,
    plain,
)
from fairseq_posattn.lab.experiments.downloads import Source
from fairseq_posattn.lab.scoring.score_record import MAIN_SCORES
from fairseq_posattn.trees.control import TreeControl

PARSED = "parsed"  # trees of a parser, where a recipe's own are those of a treebank


@dataclass(frozen=True)
class Corpus:
    """This says what texts a corpus has, and how they become data.

    train, valid, tests: the names of the texts; a text NAME is in NAME.SOURCE and NAME.TARGET.
    sentences: how many a text has; a second number admits that many percent more or fewer.
    kept: the same for the training sentences within the limits of posattn prepare.
    prepare: options of posattn prepare.
    sacrebleu: the names under which sacrebleu downloads a text.
    downloads: the files that are fetched where the user names no folder.
    folder: the corpus is read there, where the user names no other folder; it may be anywhere.
    treebanks: the file of a text that is made from two treebanks; `{}` stands for the language.
    parsers: names of trees that corpus.py makes, beside copies of the texts in raw/NAME.
    licence: that of the texts, or the terms of their use.
    """

    valid: str = field(metadata=plain())
    tests: list[str] = field(metadata=plain())
    train: str = field(default="train", metadata=plain())
    sentences: dict[str, list[float]] = field(default_factory=dict)
    kept: list[float] = field(default_factory=list)
    prepare: Options = field(default_factory=dict)
    sacrebleu: dict[str, str] = field(default_factory=dict)
    downloads: list[Source] = field(default_factory=list)
    folder: str = ""
    treebanks: dict[str, str] = field(default_factory=dict)
    parsers: list[str] = field(default_factory=list, metadata=plain())
    licence: str = ""

    def __post_init__(self) -> None:
        names = [source.name for source in self.downloads]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"downloads has the file '{again}' twice")
        for pattern in self.treebanks.values():
            if not is_plain(pattern.replace("{}", "xx")):
                raise InputError(
                    f"treebanks has the file '{pattern}', which is not {PLAIN}, or {{}}"
                )
        check_options("prepare", self.prepare, NOT_PREPARE)

    @property
    def all_parsers(self) -> list[str]:
        """Return the names of trees that are no control trees."""
        return [PARSED, *self.parsers]

    @property
    def names(self) -> list[str]:
        """Return the names of all texts, each once."""
        return list(dict.fromkeys([self.train, self.valid, *self.tests]))


@dataclass(frozen=True)
class Size:
    """A size of the models has these hyper-parameters.

    arch: the end of the architecture's name, as in posattn_sequence_wmt_en_de.
    batch_tokens: the tokens of a batch, whatever the number of processes.
    averaged: how many checkpoints are averaged; one is saved every `save_every` updates.
    training: options of fairseq-train.
    """

    arch: str
    updates: int = field(metadata=at_least(1))
    batch_tokens: int = field(metadata=at_least(1))
    averaged: int = field(default=5, metadata=at_least(1))
    save_every: int = field(default=1500, metadata=at_least(1))
    training: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options("training", self.training, (*NOT_TRAINING, *OUR_OWN))


@dataclass(frozen=True)
class Row:
    """A row is a model in the tables of a recipe.

    model: a preset, without posattn_.
    size: one of the sizes of the recipe.
    name: the name in tables and folders, if it is not that of the preset.
    trees: the control trees, or those of a parser, that the model is trained and tested with.
    tested: other trees for the tests alone.
    training: options of fairseq-train, beside those of the size.
    published, paper: the published BLEU of each test set, and where it stands.
    """

    model: str
    size: str
    name: str = field(default="", metadata=plain())
    trees: str = "own"
    tested: str = ""
    training: Options = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    paper: str = ""

    def __post_init__(self) -> None:
        check_options("training", self.training, (*NOT_TRAINING, *OUR_OWN))

    @property
    def all_trees(self) -> list[str]:
        """Return the trees for which data are needed."""
        return [self.trees, self.tested] if self.tested else [self.trees]

    @property
    def title(self) -> str:
        """Return what the row is called."""
        return self.name or self.model

    @property
    def system(self) -> str:
        """Return the name that the model of this size has in results and reports."""
        return f"{self.title}.{self.size}"


@dataclass(frozen=True)
class Evaluation:
    """This says how the models translate and are scored.

    main: the score of the tables, if it is not BLEU.
    subsets: names of labels by test set; the label of each sentence of TEST is in TEST.NAME.
    published: published figures by label, or `mean`, beside ours: by what their column is called.
    """

    beam: int = field(default=5, metadata=at_least(1))
    lenpen: float = 1.0
    score: Options = field(default_factory=dict)
    main: str | None = field(default=None, metadata=one_of(*MAIN_SCORES))
    subsets: dict[str, list[str]] = field(default_factory=dict)
    published: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options("score", self.score, NOT_SCORE)
        for test, names in self.subsets.items():
            if not are_plain(names):
                raise InputError(f"subsets.{test} is {names}, expected {PLAIN}")


@dataclass(frozen=True)
class Series:
    """A series is a line in the figure of a sweep: one model with several values of an option.

    An empty `value` in braces stands in the option's value: "window(size={})@0-2".
    """

    label: str
    model: str = field(metadata=plain())
    option: str
    template: str
    values: list[int]

    def __post_init__(self) -> None:
        check_options("option", {self.option: self.template}, (*NOT_TRAINING, *OUR_OWN))

    def row(self, value: int, size: str) -> Row:
        """Return the model with one of the values."""
        filled = self.template.replace("{}", str(value))
        name = f"{self.model}.{'_'.join(re.findall(r'[A-Za-z0-9]+', filled))}"
        return Row(self.model, size, name=name, training={self.option: filled})


@dataclass(frozen=True)
class Sweep:
    """A sweep compares series with a model without the option (Yang et al. 2019, Figure 2)."""

    baseline: str = field(metadata=plain())
    series: list[Series]

    def __post_init__(self) -> None:
        names = [series.row(value, "").title for series in self.series for value in series.values]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"the sweep has '{again}' twice")


@dataclass(frozen=True)
class Content:
    """This is what stands in recipe.toml.

    chosen: how the hyper-parameters were chosen.
    """

    title: str
    source: str = field(metadata=plain())
    target: str = field(metadata=plain())
    corpus: Corpus
    sizes: dict[str, Size] = field(metadata=plain())
    models: list[Row]
    training: Options = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)
    sweep: Sweep | None = None
    chosen: str = ""

    def __post_init__(self) -> None:
        if not self.sizes or not self.models:
            raise InputError("sizes and models must not be empty")
        check_options("training", self.training, (*NOT_TRAINING, *OUR_OWN))
        if others := [t for t in self.evaluation.subsets if t not in self.corpus.tests]:
            raise InputError(
                f"evaluation.subsets has '{others[0]}', which is none of the tests: "
                + " ".join(self.corpus.tests)
            )
        seen = set()
        for row in self.models:
            if row.size not in self.sizes:
                raise InputError(
                    f"the model '{row.title}' has the size '{row.size}', which is none of: "
                    + " ".join(self.sizes)
                )
            for trees in row.all_trees:
                if trees not in self.corpus.all_parsers:
                    TreeControl.from_tag(trees)  # this refuses an unknown control
            if PARSED in row.all_trees and self.corpus.prepare.get("parser") != "conllu":
                raise InputError(
                    f"the model '{row.title}' has {PARSED} trees, as all models have them without "
                    'corpus.prepare.parser = "conllu"; leave out trees'
                )
            if row.system in seen:
                raise InputError(f"there are two models '{row.title}' of the size '{row.size}'")
            seen.add(row.system)


@dataclass(frozen=True)
class TrialRow:
    """A row is a model in the tables of a trial.

    label: what the tables call the model, if that is not its name.
    training: options of fairseq-train; `on` has those for a corpus alone.
    published: figures of the paper, by corpus and by name.
    in_table: says whether table.sh trains the model where --models does not name it.
    """

    name: str = field(metadata=plain())
    label: str = ""
    training: Options = field(default_factory=dict)
    on: dict[str, Options] = field(default_factory=dict, metadata=plain())
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    in_table: bool = True

    def __post_init__(self) -> None:
        for options in (self.training, *self.on.values()):
            check_options("training", options, NOT_TRAINING)

    @property
    def title(self) -> str:
        """Return what the model is called on the command line."""
        return self.name

    @property
    def shown(self) -> str:
        """Return what the tables call the model."""
        return self.label or self.name


@dataclass(frozen=True)
class TrialContent:
    """This is what stands in the recipe.toml of a trial.

    data: choices of the recipe about its data, which its trial.py explains.
    """

    title: str
    models: list[TrialRow]
    training: Options = field(default_factory=dict)
    data: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [row.name for row in self.models]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"there are two models '{again}'")
        check_options("training", self.training, NOT_TRAINING)
