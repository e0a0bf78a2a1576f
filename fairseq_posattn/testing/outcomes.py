"""Each check has an outcome: what was expected and found, and where a fault in a class may lie."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairseq_posattn.core.attention import Mechanism
from fairseq_posattn.testing.layer import RANDOM, STD, fresh, mechanisms_of

METHODS = (  # those that the pipeline calls
    *("before", "transform", "expand", "bias", "change_scores", "allowed", "change_weights"),
    *("value_term", "replace", "fast_path"),
)
MAKING = ("make_parameters", "__init__")


class ContractError(AssertionError):
    """A mechanism breaks the contract; the message lists all promises that it breaks."""


class BrokenPromise(ContractError):
    """A check has found that a mechanism breaks a promise of the contract."""

    def __init__(
        self, expected: str, found: str, look: str = "", methods: tuple[str, ...] = METHODS
    ):
        super().__init__(f"expected {expected}, found {found}" + (f"; {look}" if look else ""))
        self.expected, self.found, self.look, self.methods = expected, found, look, methods


class NotApplicable(Exception):
    """A check has nothing to check in this mechanism; the message says why."""


def largest_difference(one: Tensor, other: Tensor) -> float:
    """Return the largest absolute difference, which is nan where a number is nan."""
    if one.shape != other.shape or one.numel() == 0:
        return 0.0 if one.shape == other.shape else float("inf")
    return float((one.detach().double() - other.detach().double()).abs().max())


def is_close(one: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors are equal up to rounding in their precision."""
    try:
        torch.testing.assert_close(one, other)
    except AssertionError:
        return False
    return True


def expect_same(
    found: Tensor, expected: Tensor, promise: str, look: str, methods: tuple[str, ...] = METHODS
) -> None:
    """Refuse an output that differs from what it should be by more than rounding."""
    if not is_close(found, expected):
        difference = f"a difference of {largest_difference(found, expected):.2g}"
        raise BrokenPromise(promise, difference, look, methods)


def shape_of(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))


Check = Callable[[str], None]
SOME_VALUES: set[Check] = set()  # checks that hold for a mechanism if they do with some parameters


def for_some_values(check: Check) -> Check:
    """Let a check run with the initial parameters first, and pass if it passes with those."""
    SOME_VALUES.add(check)
    return check


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
    """Return the outcome of a check; a fault says with which parameters it was found."""
    some = check in SOME_VALUES
    first = outcome_with(check, specification, random=not some)
    if first.fault is None or not has_parameters(specification):
        return first
    second = outcome_with(check, specification, random=some)
    if some and second.fault is None:
        return second
    initial = "with" if second.fault else "but not with"
    values = f"(with parameters from N(0, {STD}), {initial} the initial ones of the class)"
    return Outcome(check, fault=f"{first.fault} {values}")


def has_parameters(specification: str) -> bool:
    """Tell whether mechanisms that can be built have parameters."""
    try:
        return any(True for _ in fresh(specification).mechanisms.parameters())
    except Exception:  # whatever the mechanism's own code raises
        return False


def outcome_with(check: Check, specification: str, random: bool) -> Outcome:
    """Return the outcome of a check with random or with initial parameters."""
    token = RANDOM.set(random)
    try:
        with torch.random.fork_rng(devices=()):  # the seeds of the checks are nobody else's
            check(specification)
    except NotApplicable as reason:
        return Outcome(check, not_applicable=one_line(reason))
    except BrokenPromise as broken:
        return Outcome(check, fault=described(broken, mechanisms_of(specification)))
    except Exception as error:  # whatever the mechanism's own code raises
        return Outcome(check, fault=unexpected(error, mechanisms_of(specification)))
    finally:
        RANDOM.reset(token)
    return Outcome(check)


def described(broken: BrokenPromise, mechanisms: list[type[Mechanism]]) -> str:
    """Return the message of a broken promise with the methods in which to look."""
    look = f"; look at {', '.join(places_of(mechanisms, broken.methods))}"
    advice = f": {broken.look}" if broken.look else ""
    return one_line(f"expected {broken.expected}, found {broken.found}{look}{advice}")


def unexpected(error: Exception, mechanisms: list[type[Mechanism]]) -> str:
    """Return the message about an error that the mechanism's code raised."""
    files = {inspect.getsourcefile(mechanism) for mechanism in mechanisms}
    frames = traceback.extract_tb(error.__traceback__)
    own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if f.filename in files]
    places = own[-1:] or places_of(mechanisms, (*METHODS, *MAKING))
    place = ", ".join(places)
    return one_line(f"expected no error, found {type(error).__name__}: {error}; look at {place}")


def places_of(mechanisms: list[type[Mechanism]], methods: Iterable[str]) -> list[str]:
    """Return the methods that the mechanisms define themselves: 'Mine.bias (mine.py:12)'; or else
    their classes."""
    found = []
    for mechanism in mechanisms:
        for method in dict.fromkeys(methods):
            owner = next((c for c in mechanism.__mro__ if method in vars(c)), None)
            if owner is not None and owner.__module__ != Mechanism.__module__:
                found.append(f"{mechanism.__name__}.{method}{line_of(getattr(owner, method))}")
    return found or [f"{mechanism.__name__}{line_of(mechanism)}" for mechanism in mechanisms]


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
