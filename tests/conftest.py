"""Options, markers and the small corpora that the tests share."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent))  # reference, hand_drawn, commands

# a shell that starts the tests in the background would have all their programs ignore the keyboard
signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples each time, and no clock: machines are slow at times
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="also run the tests marked long")


LONGEST = "test_the_toy_recipe_shows_what_trees_are_good_for"


def pytest_collection_modifyitems(config, items):
    items.sort(
        key=lambda item: item.name != LONGEST
    )  # first, or one worker waits for it at the end
    if config.getoption("--all"):
        return
    skip = pytest.mark.skip(reason="long: runs with --all")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def toy_data(tmp_path_factory) -> Path:
    """A binarised toy corpus with trees, made by the real steps; shared by all workers.

    Beside the folder `data` lie the texts that it was made from: see commands.make_toy_data.
    """
    from filelock import FileLock

    from commands import make_toy_data

    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    folder = shared / "toy"
    with FileLock(f"{folder}.lock"):
        if not (folder / "data").exists():
            make_toy_data(folder)
    return folder / "data"


@pytest.fixture(scope="session")
def stanza_models(tmp_path_factory):
    """Small stanza models, shared by all workers: see parse_toys.StanzaModels."""
    from parse_toys import StanzaModels

    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    return StanzaModels(shared / "stanza")
