"""Import custom mechanisms from a file, a folder or a module."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from fairseq_posattn.core.attention import MECHANISMS, Mechanism
from fairseq_posattn.errors import InputError

PLUGIN = "fairseq_posattn.plugin"
Loaded = TypeVar("Loaded")


def registered_by(module: str) -> list[type[Mechanism]]:
    """Import a file, folder or module; return its mechanisms, or raise an InputError."""
    before = set(MECHANISMS)
    found_in = imported_from(module)
    found = [mechanism for name, mechanism in MECHANISMS.items() if name not in before]
    if not found:
        raise InputError(f"{module}: {reason_for_none(found_in)}")
    return found


def imported_from(module: str) -> ModuleType:
    with plugin_if_possible():
        return module_of(module)


def module_of(module: str) -> ModuleType:
    """Import a .py file, a folder with __init__.py, or a module by name."""
    path = Path(module)
    if path.is_dir():
        if not (path / "__init__.py").is_file():
            raise InputError(
                f"{module}: the folder contains no __init__.py; add one, or specify a .py file"
            )
        return imported(module, lambda: from_file(path.resolve().name, path / "__init__.py"))
    if path.is_file():
        if path.suffix != ".py":
            raise InputError(
                f"{module}: this is not a Python file; specify a file that ends in .py"
            )
        return imported(module, lambda: from_file(path.stem, path))
    if path.suffix == ".py" or path.name != module:
        raise InputError(f"{module}: no such file or folder; check the path")
    if not imported(module, lambda: is_module(module)):
        raise InputError(
            f"{module}: there is no file, folder or module of this name; specify a .py file, a "
            "folder with __init__.py, or a module"
        )
    return imported(module, lambda: importlib.import_module(module))


def is_module(name: str) -> bool:
    """Return whether a module of this name exists, after importing its parent package."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):  # `name` is missing, not one of its imports
            return False
        raise


def from_file(name: str, path: Path) -> ModuleType:
    """Import a .py file, which may import its neighbours, under an unused name."""
    path = path.resolve()
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if name in sys.modules:
        name = f"{name}_to_check"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # always true for .py files
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module during the import
    spec.loader.exec_module(module)
    return module


def imported(module: str, load: Callable[[], Loaded]) -> Loaded:
    """Call `load`, which imports a module, and convert its exceptions into one-line InputErrors."""
    try:
        return load()
    except InputError:  # for example from the registration of a class
        raise
    except SystemExit:
        raise InputError(
            f"{module}: the module calls sys.exit when it is imported; remove this call"
        ) from None
    except Exception as error:
        raise InputError(
            f"{place_of(error, module)}: the import failed with {named(error)}; correct the code"
        ) from error


def named(error: Exception) -> str:
    return traceback.format_exception_only(error)[-1].strip()


def place_of(error: Exception, module: str) -> str:
    """Return the file and line in the imported code that caused an error, as in 'mine.py:3'."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    passing = (str(Path(__file__).parents[1]), "<frozen importlib")
    own = [frame for frame in frames if not frame.filename.startswith(passing)]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else module


def reason_for_none(module: ModuleType) -> str:
    found = [thing for thing in vars(module).values() if isinstance(thing, type)]
    own = [c for c in found if issubclass(c, Mechanism) and c.__module__ == module.__name__]
    classes = [c.__name__ for c in own if c not in MECHANISMS.values()]
    advice = "add the decorator @register (from fairseq_posattn.attention) to"
    if classes:
        return f"the module does not register {', '.join(classes)}; {advice} each class"
    return f"the module registers no new mechanism; {advice} its mechanisms"


@contextmanager
def plugin_if_possible() -> Iterator[None]:
    """Make `from fairseq_posattn import plugin` do nothing if fairseq is not installed.

    Folders that are passed to --user-dir import the plug-in, but checking their mechanisms does not
    require fairseq.
    """
    if PLUGIN in sys.modules or importlib.util.find_spec("fairseq") is not None:
        yield
        return
    sys.modules[PLUGIN] = ModuleType(PLUGIN)
    try:
        yield
    finally:
        del sys.modules[PLUGIN]
