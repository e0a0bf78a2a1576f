"""Dataclasses that define and validate the tables and keys of recipe.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import product

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
from fairseq_posattn.files.records import ABSENT, at_least, is_of, one_of, shown
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
                raise InputError(f"treebanks lists '{pattern}', expected {PLAIN} ({{}}: language)")
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

    model: preset, without the prefix posattn_; in recipes with a trial.py, it can be omitted.
    size: one of the recipe's sizes; omitted if the recipe has none.
    name: name in tables and folders (default: the name of the preset).
    label: name in the tables of a trial.py (default: `name`).
    trees: name of the trees for training and testing, such as `chain` (default: `own`).
    tested: trees for testing, if they differ from `trees`.
    training: options of fairseq-train, which override those of the size.
    on: additional options of fairseq-train for individual corpora; those for `ptb` also apply to
        parts of this corpus, such as `ptb.9_words`.
    published: published BLEU score for each test set; in the recipe of a trial.py, published
        results by corpus and by name of the result.
    paper: paper that reports the published scores.
    in_table: if false, table.sh omits it unless --models or --baseline lists it.
    """

    model: str = ""
    size: str = ""
    name: str = field(default="", metadata=plain())
    label: str = ""
    trees: str = "own"
    tested: str = ""
    training: Options = field(default_factory=dict)
    on: dict[str, Options] = field(default_factory=dict, metadata=plain())
    published: dict = field(default_factory=dict)
    paper: str = ""
    in_table: bool = True

    def __post_init__(self) -> None:
        for options in (self.training, *self.on.values()):
            check_options("training", options, NOT_TRANSLATION if self.model else NOT_TRAINING)
        for figures in [self.published] if self.model else self.published.values():
            if not (isinstance(figures, dict) and all(is_of(float, x) for x in figures.values())):
                by = "test set" if self.model else "corpus and name of the result"
                raise InputError(f"published is {shown(self.published)}, expected numbers per {by}")

    @property
    def all_trees(self) -> list[str]:
        """Return the names of the trees that the model is trained and tested with."""
        return [self.trees, self.tested] if self.tested else [self.trees]

    @property
    def title(self) -> str:
        return self.name or self.model

    @property
    def shown(self) -> str:
        return self.label or self.title

    @property
    def system(self) -> str:
        """Return the name of the model and its size, as used in results and reports."""
        return f"{self.title}.{self.size}"

    def on_corpus(self, name: str) -> Row:
        """Return the model for one corpus, whose name takes the place of the size."""
        own = self.on.get(name, self.on.get(name.partition(".")[0], {}))
        return replace(self, size=name, trees="none", training={**self.training, **own})


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
    """The content of recipe.toml.

    Recipes that translate with presets require `source`, `target`, `corpus` and `sizes`.

    training: options of fairseq-train for all models.
    data: settings that a trial.py reads and documents.
    chosen: how the hyper-parameters were chosen.
    """

    title: str
    models: list[Row]
    source: str = field(default="", metadata=plain())
    target: str = field(default="", metadata=plain())
    corpus: Corpus = ABSENT
    sizes: dict[str, Size] = field(default_factory=dict, metadata=plain())
    training: Options = field(default_factory=dict)
    data: Options = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)
    sweep: Sweep | None = None
    chosen: str = ""

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("models must not be empty")
        presets = self.has_presets
        check_options("training", self.training, NOT_TRANSLATION if presets else NOT_TRAINING)
        for name in ("source", "target", "corpus", "sizes"):
            if bool(getattr(self, name)) != presets:
                reason = "is missing" if presets else "requires models with a preset (model = ...)"
                raise InputError(f"{name} {reason}")
        others = ["label", "on", "data"] if presets else ["trees", "tested", "evaluation", "sweep"]
        default = {**vars(Row()), "data": {}, "evaluation": Evaluation(), "sweep": None}
        for record, name in product((self, *self.models), others):
            if vars(record).get(name, default[name]) != default[name]:
                raise InputError(f"{name} requires models with{'out' * presets} a preset")
        seen = set()
        for row in self.models:
            if not row.title or bool(row.model) != presets:
                lacking = "model" if presets else "name"
                raise InputError(f"the [[models]] entry '{row.title}' has no {lacking}")
            if row.size not in (self.sizes or [""]):
                raise InputError(
                    f"the model '{row.title}' has the size '{row.size}'; recipe.toml defines: "
                    + (" ".join(self.sizes) or "no sizes")
                )
            if row.system in seen:
                raise InputError(f"'{row.title}' names two models of the same size; rename one")
            seen.add(row.system)
        if presets:
            self.check_corpus()

    @property
    def has_presets(self) -> bool:
        """Return whether the models are presets, which translate the corpus."""
        return any(row.model for row in self.models)

    def check_corpus(self) -> None:
        if others := [t for t in self.evaluation.subsets if t not in self.corpus.tests]:
            raise InputError(
                f"evaluation.subsets contains '{others[0]}', expected one of the test sets: "
                + " ".join(self.corpus.tests)
            )
        for row in self.models:
            for trees in row.all_trees:
                if trees not in self.corpus.all_parsers:
                    TreeControl.from_tag(trees)  # raises an InputError for unknown trees
            if PARSED in row.all_trees and self.corpus.prepare.get("parser") != "conllu":
                raise InputError(
                    f"the model '{row.title}' has {'trees' if row.trees == PARSED else 'tested'} = "
                    f'"{PARSED}", which requires corpus.prepare.parser = "conllu" (otherwise all '
                    "trees are parsed); leave it out"
                )
