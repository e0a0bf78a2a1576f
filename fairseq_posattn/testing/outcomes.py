"""Outcomes of checks: what was expected, what was found, and where the error may be."""

import inspect
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fairseq_posattn.core.attention import Mechanism
from fairseq_posattn.testing.layer import RANDOM, STD, fresh, mechanisms_of

METHODS = (  # called by the pipeline
    *("before", "transform", "expand", "bias", "change_scores", "allowed", "change_weights"),
    *("value_term", "replace", "fast_path"),
)
MAKING = ("make_parameters", "__init__")


class ContractError(AssertionError):
    """Raised if a mechanism violates the contract; the message lists all violated requirements."""


class BrokenPromise(ContractError):
    """Raised if a mechanism violates one requirement of the contract.

    look: a hint at the likely cause.
    methods: names of the methods in which the error may be.
    """

    def __init__(
        self, expected: str, found: str, look: str = "", methods: tuple[str, ...] = METHODS
    ):
        super().__init__(f"expected {expected}, found {found}" + (f"; {look}" if look else ""))
        self.expected, self.found, self.look, self.methods = expected, found, look, methods


class NotApplicable(Exception):
    """Raised if a check does not apply to a mechanism; the message states the reason."""


def largest_difference(one: Tensor, other: Tensor) -> float:
    """Return the largest absolute difference between two tensors, or infinity if shapes differ."""
    if one.shape != other.shape or one.numel() == 0:
        return 0.0 if one.shape == other.shape else float("inf")
    return float((one.detach().double() - other.detach().double()).abs().max())


def is_close(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding errors."""
    try:
        torch.testing.assert_close(one, other)
    except AssertionError:
        return False
    return True


def expect_same(
    found: Tensor, expected: Tensor, promise: str, look: str, methods: tuple[str, ...] = METHODS
) -> None:
    """Raise a BrokenPromise if two outputs differ by more than rounding errors."""
    if not is_close(found, expected):
        difference = f"a difference of {largest_difference(found, expected):.2g}"
        raise BrokenPromise(promise, difference, look, methods)


def shape_of(x: Tensor) -> str:
    return " x ".join(map(str, x.shape))


Check = Callable[[str], None]
SOME_VALUES: set[Check] = set()  # checks decorated with `for_some_values`


def for_some_values(check: Check) -> Check:
    """Mark a check that need only pass with either initial or random parameters."""
    SOME_VALUES.add(check)
    return check


@dataclass(frozen=True)
class Outcome:
    """The result of a check: an error, a reason why it does not apply, or neither if it passed."""

    check: Check
    fault: str | None = None
    not_applicable: str | None = None

    @property
    def promise(self) -> str:
        """Return a description of the check, taken from the docstring of its function."""
        said = (inspect.getdoc(self.check) or self.check.__name__).splitlines()[0]
        promise = said.removeprefix("Check that ").rstrip(".")
        return promise[0].upper() + promise[1:]


def outcome_of(check: Check, specification: str) -> Outcome:
    """Run a check; a fault states whether it also occurs with initial parameters."""
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
    """Return whether the mechanisms have parameters; False if they cannot be built."""
    try:
        return any(True for _ in fresh(specification).mechanisms.parameters())
    except Exception:  # raised by the mechanism's own code
        return False


def outcome_with(check: Check, specification: str, random: bool) -> Outcome:
    """Run a check with random or with initial parameters."""
    token = RANDOM.set(random)
    try:
        with torch.random.fork_rng(devices=()):  # preserves the caller's random state
            check(specification)
    except NotApplicable as reason:
        return Outcome(check, not_applicable=one_line(reason))
    except BrokenPromise as broken:
        return Outcome(check, fault=described(broken, mechanisms_of(specification)))
    except Exception as error:  # raised by the mechanism's own code
        return Outcome(check, fault=unexpected(error, mechanisms_of(specification)))
    finally:
        RANDOM.reset(token)
    return Outcome(check)


def described(broken: BrokenPromise, mechanisms: list[type[Mechanism]]) -> str:
    """Return the message for a violated requirement, with the methods to inspect."""
    look = f"; look at {', '.join(places_of(mechanisms, broken.methods))}"
    advice = f": {broken.look}" if broken.look else ""
    return one_line(f"expected {broken.expected}, found {broken.found}{look}{advice}")


def unexpected(error: Exception, mechanisms: list[type[Mechanism]]) -> str:
    """Return the message for an exception that the mechanism's own code has raised."""
    files = {inspect.getsourcefile(mechanism) for mechanism in mechanisms}
    frames = traceback.extract_tb(error.__traceback__)
    own = [f"{Path(f.filename).name}:{f.lineno}" for f in frames if f.filename in files]
    places = own[-1:] or places_of(mechanisms, (*METHODS, *MAKING))
    place = ", ".join(places)
    return one_line(f"expected no error, found {type(error).__name__}: {error}; look at {place}")


def places_of(mechanisms: list[type[Mechanism]], methods: Iterable[str]) -> list[str]:
    """Return those of the methods that the mechanisms override, as in 'Mine.bias (mine.py:12)'.

    If they override none of these methods, return the classes of the mechanisms instead.
    """
    found = []
    for mechanism in mechanisms:
        for method in dict.fromkeys(methods):
            owner = next((c for c in mechanism.__mro__ if method in vars(c)), None)
            if owner is not None and owner.__module__ != Mechanism.__module__:
                found.append(f"{mechanism.__name__}.{method}{line_of(getattr(owner, method))}")
    return found or [f"{mechanism.__name__}{line_of(mechanism)}" for mechanism in mechanisms]


def line_of(code: object) -> str:
    """Return ' (file.py:12)' for a class or method, or an empty string if the file is unknown."""
    try:
        code = inspect.unwrap(code)  # type: ignore[arg-type]
        file, (_, line) = inspect.getsourcefile(code), inspect.getsourcelines(code)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
    return f" ({Path(file).name}:{line})" if file else ""


def one_line(text: object) -> str:
    joined = " ".join(str(text).split())
    return joined if len(joined) <= 400 else f"{joined[:397]}..."
