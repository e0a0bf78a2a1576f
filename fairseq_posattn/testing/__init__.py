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

from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_posattn.core.attention import MECHANISMS, AttentionSpecification, Mechanism, register
from fairseq_posattn.testing import across, batches, paths, settings
from fairseq_posattn.testing.layer import written
from fairseq_posattn.testing.outcomes import (
    Check,
    ContractError,
    NotApplicable,
    Outcome,
    outcome_of,
)

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


CONTRACT: tuple[Check, ...] = (
    settings.it_can_be_built,
    batches.shapes_and_gradients_are_right,
    batches.every_parameter_matters,
    batches.a_sentence_is_the_same_in_a_batch,
    batches.padding_gets_no_weight,
    batches.empty_rows_stay_finite,
    batches.rows_of_padding_stay_finite,
    batches.trees_are_read_if_needed,
    paths.the_fused_way_is_the_explicit_way,
    paths.the_fused_kernel_serves_it,
    across.bands_are_the_whole,
    paths.dropout_acts_once,
    paths.autocast_is_close,
    paths.half_precision_is_close,
    paths.steps_are_the_whole,
    across.crossing_is_the_same_in_a_batch_and_in_steps,
    across.crossing_takes_either_way,
    settings.it_changes_the_output,
    settings.only_its_heads_change,
    settings.layers_do_not_mix_their_options,
    settings.neutral_settings_are_plain_attention,
    settings.a_checkpoint_keeps_it,
    settings.diagnostics_are_numbers_of_its_heads,
    across.it_works_beside_others,
)


def check(mechanism: type[Mechanism] | str) -> None:
    """Check a mechanism, and raise a ContractError that lists all violated requirements.

        check(Mine)
        check("mine(size=3)")

    mechanism: a specification in the format of --encoder-attention, or a class, which is checked
        with each of its `examples` and need not be registered.
    """
    with specifications_of(mechanism) as specifications:
        faults = [
            f"{specification}: {outcome.promise}: {outcome.fault}"
            for specification in specifications
            for outcome in outcomes(specification)
            if outcome.fault
        ]
    if faults:
        raise ContractError("\n".join(faults))


def outcomes(specification: str) -> Iterator[Outcome]:
    """Yield the outcome of each check; stop after the first check if the layer cannot be run."""
    for number, check in enumerate(CONTRACT):
        outcome = outcome_of(check, specification)
        yield outcome
        if outcome.fault and number == 0:
            return


check_mechanism = check  # its name in 0.2.0


@contextmanager
def specifications_of(mechanism: type[Mechanism] | str) -> Iterator[list[str]]:
    """Yield the specifications to check; if a class is given, register it temporarily."""
    if isinstance(mechanism, str):
        AttentionSpecification(mechanism)  # raises SpecificationError instead of ContractError
        yield [mechanism]
        return
    known = dict(MECHANISMS)
    try:
        register(mechanism)
        yield examples_of(mechanism)
    finally:
        MECHANISMS.clear()
        MECHANISMS.update(known)


def examples_of(mechanism: type[Mechanism]) -> list[str]:
    """Return the specifications with which a mechanism is checked."""
    return [written(mechanism.name, options) for options in mechanism.examples]
