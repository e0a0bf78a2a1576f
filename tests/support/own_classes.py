"""The classes that docs/your_own.md shows become the folder of a --user-dir."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from fairseq_posattn.core import attention, positions
from fairseq_posattn.text.live import providers
from support.commands import ROOT

DOCUMENT = ROOT / "docs/your_own.md"
TABLES = (attention.MECHANISMS, positions.POSITIONS, providers.PROVIDERS)
NAME = "my_classes"  # of the folder


def block(language: str) -> str:
    """Return the only block of code of a language that the document has."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    (found,) = [text for name, text in blocks if name == language]
    return found


def code() -> str:
    """Return the file that the document shows."""
    return block("python")


def specifications() -> list[tuple[str, str]]:
    """Return what the document's commands give as positions or attention, each with its kind."""
    found = re.findall(r"--\w+-(positions|attention) (?:'([^']*)'|(\w+))", block(""))
    return [(kind, quoted or bare) for kind, quoted, bare in found]


def make_folder(parent: Path) -> Path:
    """Write the folder that the document shows."""
    folder = parent / NAME
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code())
    return folder


@contextmanager
def restored() -> Iterator[None]:
    """Forget afterwards what is registered and put into sys.path, and modules imported from there.

    Modules of installed packages stay, because they cannot be imported twice.
    """
    before, modules, path = [dict(table) for table in TABLES], set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        for table, entries in zip(TABLES, before, strict=True):
            table.clear()
            table.update(entries)
        added = {entry for entry in sys.path if entry not in path}
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if any(Path(file).is_relative_to(folder) for folder in added):
                del sys.modules[name]
        sys.path[:] = path


@contextmanager
def registered(parent: Path) -> Iterator[Path]:
    """Register the classes in this process for some time, as --user-dir does; gives the folder."""
    folder = make_folder(parent)
    with restored():
        sys.path.insert(0, str(parent))
        import_module(NAME)
        yield folder
