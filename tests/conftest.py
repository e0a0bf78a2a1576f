"""Options, markers and the small corpora that the tests share."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent))  # the package `support`
sys.modules["torchaudio"] = None  # transformers imports it, which fails with a build for CUDA

# a shell that starts the tests in the background would have all their programs ignore the keyboard
signal.signal(signal.SIGINT, signal.default_int_handler)

# the same examples each time, and no clock: machines are slow at times
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")


def pytest_addoption(parser):
    parser.addoption("--ci", action="store_true", help="also one long test of each family")
    parser.addoption("--all", action="store_true", help="all tests")


def pytest_configure(config):
    """Let the workers of pytest-xdist share what starts their programs."""
    from support import warm

    if not hasattr(config, "workerinput"):
        warm.share()


LANES = ("quick", "ci", "all")  # each runs all tests of those before it
LONGEST = {"test_the_toy_recipe_shows_what_trees_are_good_for", "test_three_commands"}


def lane_of_run(config) -> str:
    """Return the lane that the options ask for."""
    return next((name for name in ("all", "ci") if config.getoption(name)), "quick")


def lane_of(item) -> str:
    """Return the first lane that a test runs in, by its mark `long` (see pyproject.toml)."""
    mark = item.get_closest_marker("long")
    case = item.callspec.id if hasattr(item, "callspec") else None
    if mark is None or case in mark.kwargs.get("but", ()):
        return "quick"
    in_ci = mark.kwargs.get("ci", ())
    return "ci" if in_ci is True or (in_ci and case in in_ci) else "all"


def pytest_collection_modifyitems(config, items):
    # the longest first, or one worker waits for it at the end
    items.sort(key=lambda item: item.name not in LONGEST)
    last, chosen, others = LANES.index(lane_of_run(config)), [], []
    for item in items:
        (chosen if LANES.index(lane_of(item)) <= last else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


@pytest.fixture(scope="session")
def lane(pytestconfig) -> str:
    """One of LANES: which tests run."""
    return lane_of_run(pytestconfig)


def pytest_collection_finish(session):
    """Spare the tests what takes a tenth of their time without any use.

    The garbage collector looks through all that was imported, again and again. Without a GPU torch
    keeps each seed for later, with a trace of the calls, which are many in a test.
    """
    torch = sys.modules.get("torch")
    if torch and not torch.cuda.is_available():
        for name in ("cuda", "xpu"):  # torch 2.1 has no xpu
            if module := getattr(torch, name, None):
                module.manual_seed_all = lambda seed: None
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory) -> Path:
    """The folder of this run of the tests, which is the same for all workers."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder


@pytest.fixture(scope="session")
def toy_data(shared_folder) -> Path:
    """A binarised toy corpus with trees, made by the real steps; shared by all workers.

    Beside the folder `data` lie the texts that it was made from: see `make_toy_data`.
    """
    from filelock import FileLock

    from support.commands import make_toy_data

    folder = shared_folder / "toy"
    with FileLock(f"{folder}.lock"):
        if not (folder / "data").exists():
            make_toy_data(folder)
    return folder / "data"


@pytest.fixture(scope="session")
def stanza_models(shared_folder):
    """Small stanza models, shared by all workers: see support.parse_toys.StanzaModels."""
    from support.parse_toys import StanzaModels

    return StanzaModels(shared_folder / "stanza")


@pytest.fixture(scope="session")
def corpus(shared_folder, stanza_models):
    """Raw parallel text and the data made of it, shared by all workers: see support.raw_corpus."""
    from support.raw_corpus import Corpus

    return Corpus(shared_folder / "raw-corpus", stanza_models.contracted)


@pytest.fixture
def write(tmp_path):
    """A function that writes a text or lines to a file of this name and returns its path."""
    from support import files

    return lambda name, content: str(files.write(tmp_path / name, content))


@pytest.fixture
def asked(monkeypatch) -> list[tuple[str, list]]:
    """What the parser is asked; it works in this process, where it is loaded once for all tests."""
    from fairseq_posattn.text.live.parser_process import LiveParser, answer

    questions = []

    def ask(self, what, lines):
        questions.append((what, list(lines)))
        return answer(self.settings, what, lines) if lines else []

    monkeypatch.setattr(LiveParser, "ask", ask)
    return questions
