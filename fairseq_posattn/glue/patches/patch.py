"""Describe one patch: a function of fairseq, and what takes its place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

INSTALLED = "posattn_patches"  # the attribute in which a place keeps what is installed there


class Patch(NamedTuple):
    """Wraps the function, class or module that a place of fairseq has under a name.

    wrapper: is called in its place with it and the arguments of each call. What cannot be called,
    such as a module, is replaced by what the wrapper makes of it.
    """

    place: object
    name: str
    wrapper: Callable

    def install(self) -> None:
        """Put the wrapper in place, unless it is there already."""
        there = vars(self.place).get(INSTALLED, ())
        if (self.name, self.wrapper) in there:
            return
        wrapped = self.wrapped(getattr(self.place, self.name))
        if isinstance(inspect.getattr_static(self.place, self.name), staticmethod):
            wrapped = staticmethod(wrapped)
        setattr(self.place, self.name, wrapped)
        setattr(self.place, INSTALLED, (*there, (self.name, self.wrapper)))

    def wrapped(self, original: Any) -> Any:
        """Return what takes the place of something of fairseq."""
        if not callable(original):
            return self.wrapper(original)

        @functools.wraps(original)
        def call(*args, **kwargs):
            return self.wrapper(original, *args, **kwargs)

        return call


def stand_in(module: ModuleType, **own: Any) -> ModuleType:
    """Return what behaves as a module, but for some things of its own."""
    found = ModuleType(module.__name__)
    vars(found).update(own, __getattr__=lambda name: getattr(module, name))
    return found
