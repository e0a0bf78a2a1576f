"""Check custom attention mechanisms against the contract that every mechanism must fulfil.

    posattn check-mechanism mine.py
    posattn check-mechanism my_mechanisms/ --specification 'mine(size=3)'

MODULE is a Python file, a folder with __init__.py (as for --user-dir) or the name of a module. Each
mechanism that it registers is checked with the specifications that its class lists in `examples`,
or with those given by --specification. For each specification, one line reports how many checks
passed or failed. Failed checks (`FAILED`) follow, with the expected and actual result and a
hint. With -v, checks that passed (`ok`) or do not apply (`--`) are listed as well. fairseq is not
required.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.command_line import run
from fairseq_posattn.files.records import option
from fairseq_posattn.files.requests import UsageError, asked

if TYPE_CHECKING:
    from fairseq_posattn.testing import Outcome


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """The options of posattn check-mechanism."""

    command: ClassVar = "posattn check-mechanism"
    module: str | None = option(
        "file, folder or module that registers the mechanisms",
        None,
        positional=True,
        metavar="MODULE",
    )
    specification: list[str] | None = option(
        "check this specification (same syntax as --encoder-attention) instead of the `examples`; "
        "can be repeated",
        None,
        action="append",
        metavar="TEXT",
    )
    verbose: bool = option(
        "list all checks, not only those that failed", False, flag=("-v", "--verbose")
    )

    def __post_init__(self) -> None:
        if not self.module and not self.specification:
            raise UsageError("give a MODULE, or a --specification of built-in mechanisms")


def main() -> None:
    request = asked(CheckRequest, __doc__)
    from fairseq_posattn.core.attention import AttentionSpecification
    from fairseq_posattn.testing import examples_of
    from fairseq_posattn.testing.own_modules import registered_by

    mechanisms = registered_by(request.module) if request.module else []
    examples = [example for mechanism in mechanisms for example in examples_of(mechanism)]
    specifications = request.specification or examples
    for specification in specifications:
        AttentionSpecification(specification)  # report invalid specifications before any check
    found = [one for each in specifications for one in checked(each, request.verbose)]
    failed = sum(outcome.fault is not None for outcome in found)
    if failed:
        raise InputError(f"{failed} of {len(found)} checks failed: see the lines marked FAILED")
    print(f"All {len(found)} checks passed or do not apply.")


def checked(specification: str, verbose: bool) -> list[Outcome]:
    """Run all checks on a specification, print a report, and return the outcomes."""
    from fairseq_posattn.testing import outcomes

    found = list(outcomes(specification))
    failed = sum(outcome.fault is not None for outcome in found)
    apply = sum(not outcome.not_applicable for outcome in found)
    told = f"{failed} of {apply} checks FAILED" if failed else f"{apply} checks passed"
    print(f"{specification}: {told}, {len(found) - apply} do not apply")
    for outcome in found:
        if verbose or outcome.fault:
            print(f"  {line(outcome)}", flush=True)
    return found


def line(outcome: Outcome) -> str:
    if outcome.fault:
        return f"FAILED  {outcome.promise}: {outcome.fault}"
    if outcome.not_applicable:
        return f"--      {outcome.promise}: {outcome.not_applicable}"
    return f"ok      {outcome.promise}"


if __name__ == "__main__":
    run(main)
