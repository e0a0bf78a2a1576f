"""Test your own attention mechanisms against the contract that all mechanisms fulfil.

    from fairseq_posattn.testing import check

    def test_mine():
        check(Mine)              # the class, with the options that its `examples` list
        check("mine(size=3)")    # a specification, as --encoder-attention takes it

`check` raises a ContractError, a subclass of AssertionError, with one line per broken promise.
`posattn check-mechanism mine.py` does the same from a shell. The checks read attributes of the
class, which `fairseq_posattn.attention.Mechanism` documents.
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
