"""Check custom attention mechanisms against the contract that every mechanism must fulfil.

    posattn check-mechanism mine.py
    posattn check-mechanism my_mechanisms/ --specification 'mine(size=3)'

MODULE is a Python file, a folder with __init__.py (as for --user-dir) or the name of a module. Each
mechanism that it registers is checked with the specifications that its class lists in `examples`,
or with those given by --specification. For each specification, one line reports how many checks
passed. Each failed check (`FAILED`) follows, with the expected result, the actual result and a
hint. With -v, checks that passed (`ok`) or do not apply (`--`) are listed as well. fairseq is not
required.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fairseq_posattn.errors import InputError
from fairseq_posattn.io.argument_types import command_parser
from fairseq_posattn.io.command_line import run

if TYPE_CHECKING:
    from fairseq_posattn.testing import Outcome


def main() -> None:
    parser = command_parser("posattn check-mechanism", __doc__)
    parser.add_argument(
        "module",
        nargs="?",
        metavar="MODULE",
        help="file, folder or module that registers the mechanisms",
    )
    parser.add_argument(
        "--specification",
        action="append",
        metavar="TEXT",
        help="check this specification (same syntax as --encoder-attention) instead of the "
        "`examples`; can be repeated",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="list all checks, not only those that failed"
    )
    options = parser.parse_args()
    if not options.module and not options.specification:
        parser.error("give a MODULE, or a --specification of built-in mechanisms")
    from fairseq_posattn.core.attention import AttentionSpecification
    from fairseq_posattn.testing import examples_of
    from fairseq_posattn.testing.own_modules import registered_by

    mechanisms = registered_by(options.module) if options.module else []
    examples = [example for mechanism in mechanisms for example in examples_of(mechanism)]
    specifications = options.specification or examples
    for specification in specifications:
        AttentionSpecification(specification)  # report invalid specifications before any check
    found = [one for each in specifications for one in checked(each, options.verbose)]
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


command = partial(run, main)
if __name__ == "__main__":
    command()
