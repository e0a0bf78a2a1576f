"""The class `Patch`, which replaces a function, class or module of fairseq."""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

INSTALLED = "posattn_patches"  # the attribute of a patched object that lists its patches


class Patch(NamedTuple):
    """Replaces the attribute `name` of `place`, a module or class of fairseq.

    wrapper: a function that is called instead of the original; its arguments are the original and
        the arguments of the call. If the original is not callable, for example a module, it is
        replaced by the return value of `wrapper(original)`.
    """

    place: object
    name: str
    wrapper: Callable

    def install(self) -> None:
        """Install the patch unless it is installed already."""
        there = vars(self.place).get(INSTALLED, ())
        if (self.name, self.wrapper) in there:
            return
        wrapped = self.wrapped(getattr(self.place, self.name))
        if isinstance(inspect.getattr_static(self.place, self.name), staticmethod):
            wrapped = staticmethod(wrapped)
        setattr(self.place, self.name, wrapped)
        setattr(self.place, INSTALLED, (*there, (self.name, self.wrapper)))

    def wrapped(self, original: Any) -> Any:
        """Return the replacement for the original."""
        if not callable(original):
            return self.wrapper(original)

        @functools.wraps(original)
        def call(*args, **kwargs):
            return self.wrapper(original, *args, **kwargs)

        return call


def stand_in(module: ModuleType, **own: Any) -> ModuleType:
    """Return a module with the attributes in `own`; all other attributes are those of `module`."""
    found = ModuleType(module.__name__)
    vars(found).update(own, __getattr__=lambda name: getattr(module, name))
    return found
