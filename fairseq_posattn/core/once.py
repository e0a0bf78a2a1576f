"""An attribute that is computed at its first access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as once
else:

    class once:
        """Like functools.cached_property, which before Python 3.12 takes a lock that torch.compile
        does not support."""

        def __init__(self, make):
            self.make = make
            self.__doc__ = make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self.make(instance)
            setattr(instance, self.name, value)
            return value


__all__ = ["once"]
