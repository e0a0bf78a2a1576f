"""Read a recipe, which says in recipe.toml what an experiment is made of."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.code_version import CHECKOUT
from fairseq_posattn.io.records import Record, as_record
from fairseq_posattn.lab.experiments.recipe_content import Content, Row
from fairseq_posattn.lab.experiments.sizes import with_shared

FILE = "recipe.toml"
USER_DIR = CHECKOUT / "fairseq_posattn"
REMEDY = "mend the recipe"
SHARED = ("model", "size", "trees", "training")  # what a row takes from the one that it is like


@dataclass(frozen=True)
class Recipe:
    """A recipe is a folder; its name is that of the folder."""

    folder: Path
    content: Content

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def called(self) -> str:
        """Return how the scripts in recipes/ find the recipe: by its name, or by its folder."""
        return self.name if self.folder.parent == CHECKOUT / "recipes" else str(self.folder)

    def size(self, name: str | None) -> str:
        """Return the name of a size, which is the first one if none is named."""
        sizes = self.content.sizes
        if name is not None and name not in sizes:
            raise InputError(f"there is no size '{name}'; choose one of: {' '.join(sizes)}")
        return name or next(iter(sizes))

    def row(self, model: str, size: str | None) -> Row:
        """Return the row of a model, which is made for a preset that no row has.

        At a size that has no row of this name it is that of another size, as in `rows`.
        """
        size = self.size(size)
        for row in self.rows(size):
            if row.title == model:
                return row
        for row in self.content.models:
            if row.title == model:
                return replace(row, size=size, published={}, paper="")
        if model not in presets():
            refuse_unknown([model], [row.title for row in self.content.models] + presets())
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
        wanted = (trees for row in self.content.models for trees in row.all_trees)
        return list(dict.fromkeys(["own", *wanted]))


@cache
def presets() -> list[str]:
    """Return the models that can be trained."""
    return sorted(path.stem for path in (USER_DIR / "glue/config/model").glob("*"))


def read_recipe(name: str) -> Recipe:
    """Return the recipe in a folder, or the one of this name among those of the checkout."""
    path = recipe_file(name)
    recipe = Recipe(path.parent, read_content(Content, path))
    for row in recipe.content.models:
        if row.model not in presets():
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
    document = read_toml(path)
    known = document.get("models", [])
    if (base := document.pop("base", None)) is not None:
        if not (shared := path.parent / str(base) / FILE).is_file():
            raise InputError(f"{path}: base is '{base}', where there is no {FILE}; {REMEDY}")
        of_base = read_toml(shared)
        known = [*known, *of_base.get("models", [])]
        document = {**of_base, **document}
    sizes = document.get("sizes")
    if isinstance(sizes, dict):
        document["sizes"] = {
            name: with_shared(name, size) if isinstance(size, dict) else size
            for name, size in sizes.items()
        }
    if isinstance(rows := document.get("models"), list):
        named: dict[str, list[Any]] = {}
        for row in (row for row in known if isinstance(row, dict)):
            named.setdefault(str(row.get("name", row.get("model"))), []).append(row)
        document["models"] = [alike(row, named, path) for row in rows]
    return as_record(kind, document, str(path), REMEDY)


def alike(row: Any, named: Mapping[str, Sequence[Any]], path: Path) -> Any:
    """Return a row with what it does not say itself from the row that it is `like`, which may be
    like another one; options of training are added to those of that row."""
    if not isinstance(row, dict):
        return row
    chain, seen = [row], {id(row)}
    turns: dict[str, Iterator[Any]] = {}  # no row is looked at twice
    while (like := chain[-1].get("like")) is not None:
        rows = turns.setdefault(str(like), iter(named.get(str(like), ())))
        if (found := next((other for other in rows if id(other) not in seen), None)) is None:
            raise InputError(
                f"{path}: a model is like '{like}', which no row is called but those that are "
                f"like it; {REMEDY}"
            )
        chain.append(found)
        seen.add(id(found))
    whole: dict[str, Any] = {}
    for one in reversed(chain):
        shared = {key: value for key, value in whole.items() if key in SHARED}
        own = {key: value for key, value in one.items() if key != "like"}
        if isinstance(ours := own.get("training"), dict):
            theirs = shared.get("training")
            own["training"] = theirs if isinstance(theirs, dict) else {}
            own["training"].update(ours)
        whole = {**shared, **own}
    return whole


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: this is no TOML ({error}); {REMEDY}") from None


def module_beside(path: Path, name: str) -> ModuleType | None:
    """Load a Python file of a recipe, or return None if the recipe has none.

    It may import the files beside it, or beside the file that it is a link to.
    """
    path = path.resolve()
    if not path.exists():
        return None
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look there
    sys.path.insert(0, str(path.parent))
    try:
        specification.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path}: the file cannot be imported ({error!r}); mend it") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names of models that a recipe does not know."""
    for name in names:
        if name not in known:
            choices = " ".join(dict.fromkeys(known))
            raise InputError(f"there is no model '{name}'; choose one of: {choices}")


def refuse_chosen(words: Sequence[str], ours: Mapping[str, str]) -> None:
    """Refuse options that a recipe chooses itself; `ours` says what to do instead of each."""
    for word in words:
        if remedy := ours.get(word.partition("=")[0]):
            raise InputError(f"{word}: the recipe chooses this; {remedy}")


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Return options as a command line has them; `true` is a flag, a list several values."""
    found: list[str] = []
    for name, value in options.items():
        if value is False:
            continue
        values: Sequence[Any] = value if isinstance(value, list) else [value]
        found += [f"--{name}", *([] if value is True else map(str, values))]
    return found
