"""Describe one patch: a function of fairseq, what takes its place, and the reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

INSTALLED = "posattn_patches"  # the attribute in which a place keeps what is installed there


class Patch(NamedTuple):
    """Wraps the function, class or module that a place of fairseq has under a name.

    `why` says what goes wrong without the patch, and `until` what would make it superfluous.
    """

    place: object
    name: str
    wrapper: Callable
    why: str
    until: str = "fairseq does the same"

    def install(self) -> None:
        """Put the wrapper in place, unless it is there already."""
        if self.is_installed:
            return
        wrapped = self.wrapper(getattr(self.place, self.name))
        if isinstance(inspect.getattr_static(self.place, self.name), staticmethod):
            wrapped = staticmethod(wrapped)
        setattr(self.place, self.name, wrapped)
        setattr(self.place, INSTALLED, (*self.there, (self.name, self.wrapper)))

    @property
    def is_installed(self) -> bool:
        """Return whether the wrapper is in place."""
        return (self.name, self.wrapper) in self.there

    @property
    def there(self) -> tuple:
        """Return the names and wrappers that are in place."""
        return vars(self.place).get(INSTALLED, ())
