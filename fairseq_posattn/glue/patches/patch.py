"""Describe one patch: a function of fairseq, what takes its place, and the reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Patch(NamedTuple):
    """Wraps the function, class or module that a place of fairseq has under a name.

    `why` says what goes wrong without the patch, `releases` which releases of fairseq were seen to
    need it, and `until` what would make it superfluous.
    """

    place: object
    name: str
    wrapper: Callable
    why: str
    releases: str
    until: str

    def install(self) -> None:
        """Put the wrapper in place, unless it is there already."""
        if self not in installed:
            installed.append(self)
            wrapped = self.wrapper(getattr(self.place, self.name))
            if isinstance(inspect.getattr_static(self.place, self.name), staticmethod):
                wrapped = staticmethod(wrapped)
            setattr(self.place, self.name, wrapped)


installed: list[Patch] = []


def install(patches: Iterable[Patch]) -> None:
    """Install patches in their order: a later one wraps an earlier one."""
    for patch in patches:
        patch.install()
