"""Start a Slurm and a Ray for each process of the tests; they take one second and ten."""

import pytest

from support.ray import Ray
from support.slurm import Slurm


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory):
    with Slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        yield slurm


@pytest.fixture
def slurm(running_slurm):
    """Give a Slurm that has no jobs and all of its nodes."""
    yield running_slurm
    running_slurm.tidy()


@pytest.fixture(scope="session")
def ray():
    with Ray() as running:
        yield running
