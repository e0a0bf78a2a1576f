"""Each check of the contract has an outcome, which says where in the code a fault may lie."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from fairseq_posattn.core.attention import Mechanism
from fairseq_posattn.testing.broken import METHODS, BrokenPromise, NotApplicable
from fairseq_posattn.testing.layer import mechanisms_of

Check = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """A check finds a fault, a reason why it does not apply, or neither of them."""

    check: Check
    fault: str | None = None
    not_applicable: str | None = None

    @property
    def promise(self) -> str:
        """Return what the check promises, in words."""
        said = (inspect.getdoc(self.check) or self.check.__name__).splitlines()[0]
        promise = said.removeprefix("Check that ").rstrip(".")
        return promise[0].upper() + promise[1:]


def outcome_of(check: Check, specification: str) -> Outcome:
    try:
        with torch.random.fork_rng(devices=()):  # the seeds of the checks are nobody else's
            check(specification)
    except NotApplicable as reason:
        return Outcome(check, not_applicable=one_line(reason))
    except BrokenPromise as broken:
        return Outcome(check, fault=described(broken, mechanisms_of(specification)))
    except Exception as error:  # whatever the mechanism's own code raises
        return Outcome(check, fault=unexpected(error, mechanisms_of(specification)))
    return Outcome(check)


def described(broken: BrokenPromise, mechanisms: list[type[Mechanism]]) -> str:
    """Return the message of a broken promise with the methods in which to look."""
    places = ", ".join(places_of(mechanisms, broken.methods))
    look = f"; look at {places}" if places else ""
    advice = f": {broken.look}" if broken.look else ""
    return one_line(f"expected {broken.expected}, found {broken.found}{look}{advice}")


def unexpected(error: Exception, mechanisms: list[type[Mechanism]]) -> str:
    """Return the message about an error that the mechanism's code raised."""
    files = {inspect.getsourcefile(mechanism) for mechanism in mechanisms}
    frames = traceback.extract_tb(error.__traceback__)
    own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if f.filename in files]
    places = own[-1:] or places_of(mechanisms, (*METHODS, "__init__")) or ["its class"]
    place = ", ".join(places)
    return one_line(f"expected no error, found {type(error).__name__}: {error}; look at {place}")


def places_of(mechanisms: list[type[Mechanism]], methods: Iterable[str]) -> list[str]:
    """Return the methods that the mechanisms define themselves: 'Mine.bias (mine.py:12)'."""
    found = []
    for mechanism in mechanisms:
        for method in dict.fromkeys(methods):
            owner = next((c for c in mechanism.__mro__ if method in vars(c)), None)
            if owner is not None and owner.__module__ != Mechanism.__module__:
                found.append(f"{mechanism.__name__}.{method}{line_of(getattr(owner, method))}")
    return found


def line_of(code: object) -> str:
    """Return ' (file.py:12)' for a class or method, or nothing where that is unknown."""
    try:
        code = inspect.unwrap(code)  # type: ignore[arg-type]
        file, (_, line) = inspect.getsourcefile(code), inspect.getsourcelines(code)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
    return f" ({Path(file).name}:{line})" if file else ""


def one_line(text: object) -> str:
    joined = " ".join(str(text).split())
    return joined if len(joined) <= 400 else f"{joined[:397]}..."
