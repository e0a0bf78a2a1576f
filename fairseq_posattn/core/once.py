"""A property that is computed on first access and then cached."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as once
else:

    class once:
        """Like functools.cached_property, but supported by torch.compile.

        Before Python 3.12, functools.cached_property acquires a lock, which torch.compile does not
        support.
        """

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
