"""Test custom attention mechanisms against the contract that all mechanisms must satisfy.

    from fairseq_posattn.testing import check

    def test_mine():
        check(Mine)              # a class, with each of its `examples`
        check("mine(size=3)")    # a specification in the format of --encoder-attention

`check` raises a ContractError, a subclass of AssertionError, with one line per violated
requirement. `posattn check-mechanism mine.py` runs the same checks on the command line. The checks
read class attributes of the mechanism, which are documented in
`fairseq_posattn.attention.Mechanism`.
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
