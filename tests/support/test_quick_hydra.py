"""These tests check support.quick_hydra."""

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from support.commands import FULL_TREE, training_options
from support.quick_hydra import quick_hydra


def configuration(*extra):
    """Return what fairseq and hydra make of the options of a training."""
    arguments = [*map(str, training_options("data", "unused", *FULL_TREE, *extra))]
    parsed = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return convert_namespace_to_omegaconf(parsed)


@pytest.mark.long(ci=True)
def test_the_configuration_is_that_of_hydra():
    """What was kept of one command line does not reach into the next one."""
    trials = [
        (),
        ("--lr", "0.5,0.25", "--clip-norm", "1e-3", "--ddp-backend", "no_c10d"),
        ("--optimizer", "adafactor"),
        ("--arch", "posattn_structural"),
        ("--encoder-attention", "relative(max=2)@0", "--log-format", "json", "--patience", "2"),
        ("--lr", "0.5"),
        (),
    ]
    expected = [configuration(*extra) for extra in trials]
    with quick_hydra():
        found = [configuration(*extra) for extra in trials]
    assert [repr(cfg) for cfg in found] == [repr(cfg) for cfg in expected]
