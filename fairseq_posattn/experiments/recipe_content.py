"""Dataclasses that define and validate the tables and keys of recipe.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.allowed import (
    NOT_PREPARE,
    NOT_SCORE,
    NOT_TRAINING,
    NOT_TRANSLATION,
    PLAIN,
    Options,
    are_plain,
    check_options,
    is_plain,
    plain,
)
from fairseq_posattn.experiments.downloads import Source
from fairseq_posattn.files.records import at_least, one_of
from fairseq_posattn.preparation.request import PreparationRequest
from fairseq_posattn.scoring.request import ScoreRequest
from fairseq_posattn.scoring.score_record import MAIN_SCORES
from fairseq_posattn.trees.control import TreeControl

PARSED = "parsed"  # name for a parser's trees in recipes whose own trees come from a treebank


@dataclass(frozen=True)
class Corpus:
    """The table [corpus]: the texts of a corpus and their preparation.

    train, valid, tests: names of the texts; the text NAME consists of NAME.SOURCE and NAME.TARGET.
    sentences: the number of sentences in each text and, optionally, the allowed deviation in
        percent.
    kept: the number of training sentences after filtering, and optionally the allowed deviation.
    prepare: options of posattn prepare.
    sacrebleu: for each text to download with sacrebleu, the name of its sacrebleu test set.
    downloads: files to download if the user specifies no folder.
    folder: path of the corpus if the user specifies no folder.
    treebanks: file names of treebanks, by name of the text; {} is replaced by the language.
    parsers: other trees, such as `grammar`; corpus.py writes them and the texts to raw/NAME.
    licence: licence or terms of use of the corpus.
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
            raise InputError(f"downloads lists the file '{again}' twice")
        for pattern in self.treebanks.values():
            if not is_plain(pattern.replace("{}", "xx")):
                raise InputError(f"treebanks lists '{pattern}', expected {PLAIN}, or {{}}")
        check_options("prepare", self.prepare, NOT_PREPARE, PreparationRequest)

    @property
    def all_parsers(self) -> list[str]:
        """Return the names of the trees that are produced by parsers."""
        return [PARSED, *self.parsers]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys([self.train, self.valid, *self.tests]))


@dataclass(frozen=True)
class Size:
    """A table [sizes.NAME]: the hyper-parameters of a model size.

    arch: suffix of the architecture name, such as _wmt_en_de in posattn_sequence_wmt_en_de.
    batch_tokens: tokens per update, summed over all processes.
    averaged: number of checkpoints to average.
    save_every: number of updates between checkpoints.
    training: options of fairseq-train.
    """

    arch: str
    updates: int = field(metadata=at_least(1))
    batch_tokens: int = field(metadata=at_least(1))
    averaged: int = field(default=5, metadata=at_least(1))
    save_every: int = field(default=1500, metadata=at_least(1))
    training: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options("training", self.training, NOT_TRANSLATION)


@dataclass(frozen=True)
class Row:
    """An entry of [[models]], which is a row in the result tables.

    model: preset, without the prefix posattn_.
    size: one of the recipe's sizes.
    name: name in tables and folders (default: the name of the preset).
    trees: name of the trees for training and testing, such as `chain` (default: `own`).
    tested: trees for testing, if they differ from `trees`.
    training: options of fairseq-train, which override those of the size.
    published: published BLEU score for each test set.
    paper: paper that reports the published scores.
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
        check_options("training", self.training, NOT_TRANSLATION)

    @property
    def all_trees(self) -> list[str]:
        """Return the names of the trees that the model is trained and tested with."""
        return [self.trees, self.tested] if self.tested else [self.trees]

    @property
    def title(self) -> str:
        return self.name or self.model

    @property
    def system(self) -> str:
        """Return the name of the model and its size, as used in results and reports."""
        return f"{self.title}.{self.size}"


@dataclass(frozen=True)
class Evaluation:
    """The table [evaluation]: how translations are scored.

    score: options of posattn score.
    main: the score shown in tables (default: NIST BLEU if it is computed, otherwise BLEU).
    subsets: for each test set TEST, the names of its label files TEST.NAME, one label per line.
    published: published scores for comparison, by column title and then by label (or `mean`).
    """

    beam: int = field(default=5, metadata=at_least(1))
    lenpen: float = 1.0
    score: Options = field(default_factory=dict)
    main: str | None = field(default=None, metadata=one_of(*MAIN_SCORES))
    subsets: dict[str, list[str]] = field(default_factory=dict)
    published: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options("score", self.score, NOT_SCORE, ScoreRequest)
        for test, names in self.subsets.items():
            if not are_plain(names):
                raise InputError(f"subsets.{test} is {names}, expected {PLAIN}")


@dataclass(frozen=True)
class Series:
    """One series in the plot of a sweep: a model with several values of an option.

    template: value of the option, such as "window(size={})@0-2", in which {} is replaced by a
        number.
    """

    label: str
    model: str = field(metadata=plain())
    option: str
    template: str
    values: list[int]

    def __post_init__(self) -> None:
        check_options("option", {self.option: self.template}, NOT_TRANSLATION)

    def row(self, value: int, size: str) -> Row:
        """Return a `[[models]]` entry for the model with this value of the option."""
        filled = self.template.replace("{}", str(value))
        name = f"{self.model}.{'_'.join(re.findall(r'[A-Za-z0-9]+', filled))}"
        return Row(self.model, size, name=name, training={self.option: filled})


@dataclass(frozen=True)
class Sweep:
    """The table [sweep]: series to compare with a baseline (Yang et al., 2019, Figure 2)."""

    baseline: str = field(metadata=plain())
    series: list[Series]

    def __post_init__(self) -> None:
        names = [series.row(value, "").title for series in self.series for value in series.values]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"the sweep contains '{again}' twice")


@dataclass(frozen=True)
class Content:
    """The content of recipe.toml in a translation recipe.

    training: options of fairseq-train for all models.
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
        check_options("training", self.training, NOT_TRANSLATION)
        if others := [t for t in self.evaluation.subsets if t not in self.corpus.tests]:
            raise InputError(
                f"evaluation.subsets contains '{others[0]}', expected one of the test sets: "
                + " ".join(self.corpus.tests)
            )
        seen = set()
        for row in self.models:
            if row.size not in self.sizes:
                raise InputError(
                    f"the model '{row.title}' has the size '{row.size}', expected one of: "
                    + " ".join(self.sizes)
                )
            for trees in row.all_trees:
                if trees not in self.corpus.all_parsers:
                    TreeControl.from_tag(trees)  # raises an InputError for unknown trees
            if PARSED in row.all_trees and self.corpus.prepare.get("parser") != "conllu":
                raise InputError(
                    f"the model '{row.title}' has trees = \"{PARSED}\", which requires "
                    'corpus.prepare.parser = "conllu" (otherwise all trees are parsed); leave out '
                    "trees"
                )
            if row.system in seen:
                raise InputError(f"two models of size '{row.size}' are called '{row.title}'")
            seen.add(row.system)


@dataclass(frozen=True)
class TrialRow:
    """An entry of [[models]] in the recipe.toml of a recipe for a task other than translation.

    label: name in the tables (default: `name`).
    training: options of fairseq-train.
    on: additional options of fairseq-train for individual corpora.
    published: results reported in the paper, by corpus and by name of the result.
    in_table: if false, table.sh trains the model only if --models lists it.
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
        return self.name

    @property
    def shown(self) -> str:
        return self.label or self.name


@dataclass(frozen=True)
class TrialContent:
    """The content of recipe.toml in a recipe for a task other than translation.

    data: settings for the data of the recipe, which are documented in its trial.py.
    """

    title: str
    models: list[TrialRow]
    training: Options = field(default_factory=dict)
    data: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [row.name for row in self.models]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"two models are called '{again}'")
        check_options("training", self.training, NOT_TRAINING)
