"""What the tests of probes share."""

import pytest

from support.probes import make_world


@pytest.fixture(scope="session")
def world(toy_data, tmp_path_factory):
    return make_world(toy_data, tmp_path_factory.mktemp("probing"))
