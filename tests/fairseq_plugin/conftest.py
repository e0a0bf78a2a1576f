"""Small models are trained once and shared by the tests and by all workers."""

import shutil

import pytest

from support.commands import FULL_TREE


@pytest.fixture(scope="session")
def models(toy_data, shared_folder):
    """Return a folder with the runs `tree` (the full model) and `stock` (fairseq's transformer)."""
    from filelock import FileLock

    from support.in_process import train

    folder = shared_folder / "models"
    with FileLock(f"{folder}.lock"):
        for name, chosen in (("tree", FULL_TREE), ("stock", ["--arch", "transformer"])):
            if not (folder / name / "checkpoint_last.pt").exists():
                updates = ["--max-update", "80", "--save-interval", "4", "--lr", "5e-3"]
                train(toy_data, folder / name, *chosen, *updates, "--log-interval", "100")
    return folder


@pytest.fixture(scope="session")
def tree_model(models):
    return models / "tree/checkpoint_last.pt"


@pytest.fixture(scope="session")
def stock_model(models):
    return models / "stock/checkpoint_last.pt"


@pytest.fixture(scope="session")
def bare_data(toy_data, tmp_path_factory):
    """Return the toy data without their trees."""
    folder = tmp_path_factory.mktemp("bare") / "data"
    return shutil.copytree(toy_data, folder, ignore=shutil.ignore_patterns("*.tree.*"))


@pytest.fixture(scope="module")
def bracketed(toy_data, tmp_path_factory):
    """Return the toy data with two brackets among the target's pieces."""
    from support.decoding import with_brackets

    return with_brackets(toy_data, tmp_path_factory.mktemp("brackets"))


@pytest.fixture(scope="module")
def model_of(bracketed):
    """Make the model whose decoder has an option; the command line is read once."""
    import torch

    from fairseq_posattn.fairseq_plugin.models.config import plain_namespace
    from support.decoding import shaken, with_option
    from support.in_process import build

    task, _, cfg = build(bracketed, *with_option("cross_attention", "tree_depth_bias"))

    def make(option, use, **more):
        args = plain_namespace(cfg.model)
        vars(args).update({"cross_attention": "", option: use, **more})
        torch.manual_seed(1)
        return task, shaken(task.build_model(args))

    return make


@pytest.fixture(scope="session")
def labelled_data(toy_data):
    """Return the toy data with labels of words; shared by all workers."""
    from support.commands import make_labelled_data

    return made_once(toy_data, "toy_labelled", make_labelled_data) / "data"


@pytest.fixture(scope="session")
def corpora(toy_data):
    """Return a folder with data for trainings of every kind."""
    from support.trainings import make_corpora

    return made_once(toy_data, "corpora", make_corpora)


def made_once(toy_data, name, make):
    """Return a folder that one of the workers makes from the toy corpus."""
    from filelock import FileLock

    folder = toy_data.parent.parent / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            make(toy_data.parent, folder)
    return folder
