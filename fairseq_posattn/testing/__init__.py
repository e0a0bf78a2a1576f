"""Every mechanism of attention keeps a contract, and so should one of your own.

    from fairseq_posattn.testing import check

    def test_mine():
        check(Mine)              # the class, with the options that its `examples` list
        check("mine(size=3)")    # a specification, as --encoder-attention takes it

`check` raises a ContractError, which is an AssertionError, with a line for each promise that is
broken. `posattn check-mechanism mine.py` does the same from a shell. What the checks need to know
about a mechanism stands in attributes of its class: see `fairseq_posattn.attention.Mechanism`.
"""

from fairseq_posattn.testing.contract import CONTRACT, check, check_mechanism, examples_of, outcomes
from fairseq_posattn.testing.outcomes import ContractError, NotApplicable, Outcome

__all__ = [
    "CONTRACT",
    "ContractError",
    "NotApplicable",
    "Outcome",
    "check",
    "check_mechanism",
    "examples_of",
    "outcomes",
]
