"""Read a recipe, which says in recipe.toml what an experiment is made of."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.sources import Source
from fairseq_posattn.io.code_version import CHECKOUT
from fairseq_posattn.io.records import Record, as_record, at_least, limit
from fairseq_posattn.trees.control import TreeControl

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "recipe.toml"
USER_DIR = CHECKOUT / "fairseq_posattn"
REMEDY = "mend the recipe"
Options = dict  # names without the dashes, and values


@dataclass(frozen=True)
class Corpus:
    """This says what texts a corpus has, and how they become data.

    train, valid, tests: the names of the texts; a text NAME is in NAME.SOURCE and NAME.TARGET.
    sentences: how many a text has; a second number admits that many percent more or fewer.
    kept: the same for the training sentences within the limits of posattn-prepare.
    prepare: options of posattn-prepare.
    sacrebleu: the names under which sacrebleu downloads a text.
    downloads: the files that are fetched where the user names no folder.
    folder: the corpus is there, where the user names no other folder.
    """

    valid: str
    tests: list[str]
    train: str = "train"
    sentences: dict[str, list[float]] = field(default_factory=dict)
    kept: list[float] = field(default_factory=list)
    prepare: Options = field(default_factory=dict)
    sacrebleu: dict[str, str] = field(default_factory=dict)
    downloads: list[Source] = field(default_factory=list)
    folder: str = ""

    def __post_init__(self) -> None:
        names = [source.name for source in self.downloads]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"downloads has the file '{again}' twice")

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


@dataclass(frozen=True)
class Row:
    """A row is a model in the tables of a recipe.

    model: a preset, without posattn_.
    size: one of the sizes of the recipe.
    name: the name in tables and folders, if it is not that of the preset.
    trees: the control trees that the model is trained and tested with.
    training: options of fairseq-train, beside those of the size.
    published, paper: the published BLEU of each test set, and where it stands.
    """

    model: str
    size: str
    name: str = field(
        default="", metadata=limit(lambda name: "/" not in name, "a name without a folder")
    )
    trees: str = "own"
    training: Options = field(default_factory=dict)
    published: dict[str, float] = field(default_factory=dict)
    paper: str = ""

    def __post_init__(self) -> None:
        TreeControl.from_tag(self.trees)  # this refuses an unknown control

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
    """This says how the models translate and are scored."""

    beam: int = field(default=5, metadata=at_least(1))
    lenpen: float = 1.0
    score: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """A series is a line in the figure of a sweep: one model with several values of an option.

    An empty `value` in braces stands in the option's value: "window(size={})@0-2".
    """

    label: str
    model: str
    option: str
    template: str
    values: list[int]

    def row(self, value: int, size: str) -> Row:
        """Return the model with one of the values."""
        filled = self.template.replace("{}", str(value))
        name = f"{self.model}.{'_'.join(re.findall(r'[A-Za-z0-9]+', filled))}"
        return Row(self.model, size, name=name, training={self.option: filled})


@dataclass(frozen=True)
class Sweep:
    """A sweep compares series with a model without the option (Yang et al. 2019, Figure 2)."""

    baseline: str
    series: list[Series]

    def __post_init__(self) -> None:
        names = [series.row(value, "").title for series in self.series for value in series.values]
        if again := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"the sweep has '{again}' twice")


@dataclass(frozen=True)
class Content:
    """This is what stands in recipe.toml."""

    title: str
    source: str
    target: str
    corpus: Corpus
    sizes: dict[str, Size]
    models: list[Row]
    training: Options = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)
    sweep: Sweep | None = None

    def __post_init__(self) -> None:
        if not self.sizes or not self.models:
            raise InputError("sizes and models must not be empty")
        seen = set()
        for row in self.models:
            if row.size not in self.sizes:
                raise InputError(
                    f"the model '{row.title}' has the size '{row.size}', which is none of: "
                    + " ".join(self.sizes)
                )
            if row.system in seen:
                raise InputError(f"there are two models '{row.title}' of the size '{row.size}'")
            seen.add(row.system)


@dataclass(frozen=True)
class Recipe:
    """A recipe is a folder; its name is that of the folder."""

    folder: Path
    content: Content

    @property
    def name(self) -> str:
        """Return the name of the recipe."""
        return self.folder.name

    @cached_property
    def presets(self) -> list[str]:
        """Return the models that can be trained."""
        return sorted(path.stem for path in (USER_DIR / "config/model").glob("*"))

    def size(self, name: str | None) -> str:
        """Return the name of a size, which is the first one if none is named."""
        sizes = self.content.sizes
        if name is not None and name not in sizes:
            raise InputError(f"there is no size '{name}'; choose one of: {' '.join(sizes)}")
        return name or next(iter(sizes))

    def row(self, model: str, size: str | None) -> Row:
        """Return the row of a model, which is made for a preset that no row has."""
        size = self.size(size)
        for row in self.content.models:
            if (row.title, row.size) == (model, size):
                return row
        if model not in self.presets:
            refuse_unknown([model], [row.title for row in self.content.models] + self.presets)
        return Row(model, size)

    def rows(self, size: str | None) -> list[Row]:
        """Return the rows of a size, or all; a size without rows has those of the first row's."""
        models = self.content.models
        if size is None:
            return models
        found = [row for row in models if row.size == self.size(size)]
        first = [row for row in models if row.size == models[0].size]
        return found or [replace(row, size=size, published={}, paper="") for row in first]

    @property
    def controls(self) -> list[str]:
        """Return the controls of trees for which data are needed, `own` first."""
        return list(dict.fromkeys(["own", *(row.trees for row in self.content.models)]))


def read_recipe(name: str) -> Recipe:
    """Return the recipe in a folder, or the one of this name among those of the checkout."""
    path = recipe_file(name)
    recipe = Recipe(path.parent, read_content(Content, path))
    for row in recipe.content.models:
        if row.model not in recipe.presets:
            raise InputError(f"{path}: there is no preset '{row.model}'; {REMEDY}")
    return recipe


def recipe_file(name: str) -> Path:
    """Return the recipe.toml in a folder, or in the recipe of this name."""
    folder = next(
        (f for f in (Path(name), CHECKOUT / "recipes" / name) if (f / FILE).exists()), None
    )
    if folder is None:
        known = sorted(path.parent.name for path in (CHECKOUT / "recipes").glob(f"*/{FILE}"))
        raise InputError(
            f"{name}: there is no {FILE} in such a folder; name one that has it, or one of: "
            + " ".join(known)
        )
    return folder.resolve() / FILE


def read_content(kind: type[Record], path: Path) -> Record:
    """Return what stands in a recipe.toml."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: this is no TOML ({error}); {REMEDY}") from None
    return as_record(kind, document, str(path), REMEDY)


def module_beside(path: Path, name: str) -> ModuleType | None:
    """Load a Python file of a recipe, or return None if the recipe has none."""
    if not path.exists():
        return None
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look there
    try:
        specification.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: the file cannot be imported ({error!r}); mend it") from error
    return module


def refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names of models that a recipe does not know."""
    for name in names:
        if name not in known:
            choices = " ".join(dict.fromkeys(known))
            raise InputError(f"there is no model '{name}'; choose one of: {choices}")


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Return options as a command line has them; `true` is a flag, a list several values."""
    found: list[str] = []
    for name, value in options.items():
        if value is False:
            continue
        values: Sequence[Any] = value if isinstance(value, list) else [value]
        found += [f"--{name}", *([] if value is True else map(str, values))]
    return found
