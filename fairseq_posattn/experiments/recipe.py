"""Read recipes, which describe the corpus, the models and the evaluation in a recipe.toml."""

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
from fairseq_posattn.experiments.recipe_content import Content, Row
from fairseq_posattn.experiments.sizes import with_shared
from fairseq_posattn.files.records import as_record
from fairseq_posattn.files.version import CHECKOUT

FILE = "recipe.toml"
USER_DIR = CHECKOUT / "fairseq_posattn"
REMEDY = "correct the recipe"
SHARED = ("model", "size", "trees", "training")  # keys that `like` copies from another entry


@dataclass(frozen=True)
class Recipe:
    """A recipe; its name is the name of its folder.

    Example:

        read_recipe("multi30k_en_de").row("sequence", "small")
    """

    folder: Path
    content: Content

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def called(self) -> str:
        """Return the RECIPE argument that selects this recipe on the command line.

        This is its name if the recipe is in the folder recipes/ of the checkout, otherwise its
        path.
        """
        return self.name if self.folder.parent == CHECKOUT / "recipes" else str(self.folder)

    def size(self, name: str | None) -> str:
        """Return `name`, or the recipe's first size if no name is given.

        Raises InputError for an unknown size.
        """
        sizes = self.content.sizes
        if name and sizes and name not in sizes:
            raise InputError(f"the recipe has no size '{name}'; choose among {' '.join(sizes)}")
        return name or next(iter(sizes), "")

    def row(self, model: str, size: str | None) -> Row:
        """Return the `[[models]]` entry of a model at the given size.

        If the model is listed only at other sizes, return a copy of the first such entry with the
        requested size. If the model is a preset that is not listed at all, create an entry.

        Raises InputError for an unknown model.
        """
        size = self.size(size)
        for row in self.rows(size):
            if row.title == model:
                return row
        for row in self.content.models:
            if row.title == model:
                return replace(row, size=size, published={}, paper="")
        known = [row.title for row in self.content.models]
        refuse_unknown([model], known + (presets() if self.content.has_presets else []))
        return Row(model, size)

    def rows(self, size: str | None) -> list[Row]:
        """Return the `[[models]]` entries of a size, or all entries if `size` is None.

        If no entry has this size, return copies of those with the first model's size, changed to
        `size`.
        """
        models = self.content.models
        if size is None:
            return models
        found = [row for row in models if row.size == self.size(size)]
        first = [row for row in models if row.size == models[0].size]
        return found or [replace(row, size=size, published={}, paper="") for row in first]

    @property
    def controls(self) -> list[str]:
        """Return the names of the trees that the models require, starting with `own`."""
        wanted = (trees for row in self.content.models for trees in row.all_trees)
        return list(dict.fromkeys(["own", *wanted]))


@cache
def presets() -> list[str]:
    """Return the names of all presets, without the prefix posattn_."""
    return sorted(path.stem for path in (USER_DIR / "fairseq_plugin/config/model").glob("*"))


def read_recipe(name: str) -> Recipe:
    """Read a recipe, given its folder or the name of a recipe in the checkout.

    Raises InputError if the recipe does not exist or its recipe.toml is invalid.
    """
    path = recipe_file(name)
    recipe = Recipe(path.parent, read_content(path))
    for row in recipe.content.models:
        if row.model not in ["", *presets()]:
            raise InputError(f"{path}: unknown preset '{row.model}'; {REMEDY}")
    return recipe


def recipe_file(name: str) -> Path:
    """Return the path of a recipe.toml, given the folder or the name of the recipe."""
    folder = next(
        (f for f in (Path(name), CHECKOUT / "recipes" / name) if (f / FILE).exists()), None
    )
    if folder is None:
        known = sorted(path.parent.name for path in (CHECKOUT / "recipes").glob(f"*/{FILE}"))
        raise InputError(
            f"{name}: no folder of this name contains a {FILE}; specify a folder that does, or one "
            "of " + " ".join(known)
        )
    return folder.resolve() / FILE


def read_content(path: Path) -> Content:
    """Read a recipe.toml, and add the values taken from `base`, `like` and the shared sizes."""
    document = read_toml(path)
    known = document.get("models", [])
    if (base := document.pop("base", None)) is not None:
        if not (shared := path.parent / str(base) / FILE).is_file():
            raise InputError(f"{path}: base is '{base}', which contains no {FILE}; {REMEDY}")
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
    return as_record(Content, document, str(path), REMEDY)


def alike(row: Any, named: Mapping[str, Sequence[Any]], path: Path) -> Any:
    """Complete a `[[models]]` entry with the SHARED keys of the entry that its `like` names.

    If that entry also has a `like`, it is completed first. Values of the entry itself take
    precedence. The options in `training` are merged.
    """
    if not isinstance(row, dict):
        return row
    chain, seen = [row], {id(row)}
    turns: dict[str, Iterator[Any]] = {}  # so each row is visited once
    while (like := chain[-1].get("like")) is not None:
        rows = turns.setdefault(str(like), iter(named.get(str(like), ())))
        if (found := next((other for other in rows if id(other) not in seen), None)) is None:
            raise InputError(
                f"{path}: a model has like = '{like}', but no other model has this name; {REMEDY}"
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
        raise InputError(f"{path}: the file is not valid TOML ({error}); {REMEDY}") from None


def module_beside(path: Path, name: str) -> ModuleType | None:
    """Import a Python file of a recipe; return None if it does not exist.

    The file can import other modules from its folder or, if the file is a symbolic link, from the
    folder of the link target.
    """
    path = path.resolve()
    if not path.exists():
        return None
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look modules up there
    sys.path.insert(0, str(path.parent))
    try:
        specification.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        moved = isinstance(error, ImportError) and (error.name or "").startswith("fairseq_posattn.")
        remedy = "find the new name of the module in CHANGELOG.md" if moved else "correct it"
        raise InputError(f"{path}: the file cannot be imported ({error!r}); {remedy}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise an InputError if one of the names is not a known model."""
    for name in names:
        if name not in known:
            choices = " ".join(dict.fromkeys(known))
            raise InputError(f"unknown model '{name}'; choose among {choices}")


def refuse_chosen(words: Sequence[str], ours: Mapping[str, str]) -> None:
    """Raise an InputError if the user sets an option that the recipe engine sets itself.

    ours: the options that the engine sets, each with a hint for the error message.
    """
    for word in words:
        if remedy := ours.get(word.partition("=")[0]):
            raise InputError(f"{word} is set by the recipe; {remedy}")


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Convert options to command-line arguments.

    Example:

        arguments({"lr": 0.1, "fp16": True, "cpu": False, "test": ["a", "b"]})
        # ["--lr", "0.1", "--fp16", "--test", "a", "b"]
    """
    found: list[str] = []
    for name, value in options.items():
        if value is False or value is None:
            continue
        values: Sequence[Any] = value if isinstance(value, list) else [value]
        found += [f"--{name}", *([] if value is True else map(str, values))]
    return found
