"""A finished training that is started again changes nothing; with other limits it goes on."""

import re
from pathlib import Path

import pytest
import torch

from fairseq_posattn.fairseq_plugin.patches import atomic
from support.commands import losses
from support.trainings import KINDS, train

SAID = re.compile(r"This training is finished: (.*)\. Nothing was changed; raise that limit")
SHRINKING = ["--lr-scheduler", "fixed", "--force-anneal", "1", "--lr-shrink", "0.1"]
LIMITS = {
    "updates": (["--max-update", "7"], r"it has made 7 updates \(--max-update 7\)"),
    "epochs": (["--max-epoch", "2"], r"it has made 2 epochs \(--max-epoch 2\)"),
    "patience": (
        ["--patience", "2", "--lr", "0", "--max-update", "90"],
        r"the last 2 validations brought no improvement \(--patience 2\)",
    ),
    "rate": (
        [*SHRINKING, "--stop-min-lr", "1e-4", "--max-update", "90"],
        r"its learning rate is 0.0001 \(--stop-min-lr 0.0001\)",
    ),
    "time": (
        ["--stop-time-hours", "1e-9", "--max-update", "90"],
        r"it has run \S+ hours \(--stop-time-hours 1e-09\)",
    ),
}


def files(folder: Path) -> dict:
    """Return the names of the checkpoints, their bytes and dates."""
    found = {path.name: path for path in folder.iterdir() if path.name != ".training.lock"}
    return {name: (path.read_bytes(), path.stat().st_mtime_ns) for name, path in found.items()}


def load(path: Path) -> dict:
    return torch.load(path, weights_only=False)


def assert_equal(left, right, where: str = "") -> None:
    """Compare nested states bit by bit."""
    assert type(left) is type(right), where
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right), where
    elif isinstance(left, dict):
        assert left.keys() == right.keys(), where
        for key in left:
            assert_equal(left[key], right[key], f"{where}/{key}")
    else:
        assert left == right, where


def assert_same_training(left: Path, right: Path) -> None:
    """The parameters, what the optimizer and the schedule keep, and what validations have shown."""
    left, right = load(left), load(right)
    for state in left, right:
        state["optimizer_history"] = state["optimizer_history"][-1]  # one for each interruption
        state["optimizer_history"]["lr_scheduler_state"].pop("last_epoch", None)  # never used
    for part in ("model", "last_optimizer_state", "optimizer_history"):
        assert_equal(left[part], right[part], part)
    for part in ("train_iterator", "early_stopping", "best", "val_loss"):
        assert_equal(left["extra_state"].get(part), right["extra_state"].get(part), part)


def assert_stays(kind: str, corpora: Path, folder: Path, options: list, reached: str) -> None:
    before = files(folder)
    for _ in range(2):
        again = train(kind, corpora, folder, *options)
        assert not losses(again.output)
        [said] = SAID.findall(again.output)
        assert re.fullmatch(reached, said), said
        assert files(folder) == before


@pytest.mark.long(ci=["updates", "patience"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_finished_training_stays_as_it_is(limit, corpora, tmp_path):
    options, reached = LIMITS[limit]
    first = train("tree", corpora, tmp_path, *options)
    assert losses(first.output) and not SAID.search(first.output)
    assert_stays("tree", corpora, tmp_path, options, reached)


@pytest.mark.long
@pytest.mark.parametrize("limit", ["updates", "patience"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tree"])
def test_of_every_kind(kind, limit, corpora, tmp_path):
    options, reached = LIMITS[limit]
    train(kind, corpora, tmp_path, *options)
    assert_stays(kind, corpora, tmp_path, options, reached)


@pytest.mark.long(ci=True)
def test_killed_within_its_last_save(corpora, tmp_path):
    """The newest checkpoint takes its place, and is not trained on."""
    options = ["--max-update", "7", "--save-interval-updates", "7", "--disable-validation"]
    train("tree", corpora, tmp_path, *options, "--max-update", "4")
    before = (tmp_path / "checkpoint_last.pt").read_bytes()
    train("tree", corpora, tmp_path, *options)
    finished = (tmp_path / "checkpoint_2_7.pt").read_bytes()
    (tmp_path / "checkpoint_last.pt").write_bytes(before)
    (tmp_path / atomic.MARK).touch()
    again = train("tree", corpora, tmp_path, *options)
    assert SAID.search(again.output) and not losses(again.output)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == finished
    assert not (tmp_path / atomic.MARK).exists()


# on with other limits

PLATEAU = ["--lr-scheduler", "reduce_lr_on_plateau", "--lr-patience", "1", "--lr-threshold", "0.5"]
PLATEAU += ["--lr-shrink", "0.5", "--lr", "1e-6"]
RAISED = {
    "updates": (["--max-update", "7"], ["--max-update", "11"], []),
    "updates, an end of epoch": (["--max-update", "5"], ["--max-update", "11"], PLATEAU),
    "epochs": (["--max-epoch", "2"], ["--max-epoch", "4"], PLATEAU),
    "patience": (["--patience", "1"], ["--patience", "3"], ["--lr", "0", "--max-update", "90"]),
    "rate": (["--stop-min-lr", "1e-4"], ["--stop-min-lr", "1e-6"], SHRINKING),
    "time": (["--stop-time-hours", "1e-9"], ["--max-update", "5"], []),
    "another limit": (["--max-update", "3"], ["--max-epoch", "2"], []),
    # one validation more, at the stop, must not count: three are no better after the fourth epoch
    "patience after updates": (["--max-update", "8"], [], ["--lr", "0", "--patience", "3"]),
    "plateau after updates": (["--max-update", "8"], ["--max-epoch", "4"], PLATEAU),
    "rare validation": (
        ["--max-update", "5"],
        ["--max-epoch", "5"],
        [*PLATEAU, "--validate-interval", "2"],
    ),
}


@pytest.mark.long(ci=["updates", "epochs", "patience"])
@pytest.mark.parametrize("case", RAISED)
def test_raised_limits_give_the_unbroken_training(case, corpora, tmp_path):
    limit, raised, options = RAISED[case]
    unbroken = train("tree", corpora, tmp_path / "unbroken", *options, *raised)
    first = train("tree", corpora, tmp_path / "broken", *options, *limit)
    second = train("tree", corpora, tmp_path / "broken", *options, *raised)
    assert losses(second.output)
    assert losses(first.output) + losses(second.output) == losses(unbroken.output)
    for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
        assert_same_training(tmp_path / "unbroken" / name, tmp_path / "broken" / name)


@pytest.mark.long
def test_the_rate_is_looked_at_between_epochs_only(corpora, tmp_path):
    """It falls below the limit within the first epoch, whose end an unbroken training reaches."""
    options = ["--lr-scheduler", "inverse_sqrt", "--warmup-updates", "1"]
    options += ["--warmup-init-lr", "1e-3", "--stop-min-lr", "6e-4", "--max-epoch", "9"]
    unbroken = train("tree", corpora, tmp_path / "unbroken", *options)
    train("tree", corpora, tmp_path / "broken", *options, "--max-update", "4")
    train("tree", corpora, tmp_path / "broken", *options)
    assert len(losses(unbroken.output)) == 5
    last = "checkpoint_last.pt"
    assert_same_training(tmp_path / "unbroken" / last, tmp_path / "broken" / last)


# anew

RESET = ["--reset-optimizer", "--reset-lr-scheduler", "--reset-dataloader", "--reset-meters"]


@pytest.fixture(scope="module")
def finished(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    train("tree", corpora, folder, "--max-update", "5")
    return folder


@pytest.mark.long
def test_reset_begins_anew(finished, corpora):
    result = train("tree", corpora, finished, *RESET, "--max-update", "3")
    assert len(losses(result.output)) == 3


def test_fine_tuning_begins_anew_and_ends(finished, corpora, tmp_path):
    last = finished / "checkpoint_last.pt"
    options = ["--finetune-from-model", last, "--max-update", "3", "--stop-time-hours", "1"]
    assert len(losses(train("tree", corpora, tmp_path, *options).output)) == 3
    again = train("tree", corpora, tmp_path, *options)
    assert SAID.search(again.output) and not losses(again.output)


def test_another_checkpoint_by_name(finished, corpora, tmp_path):
    last = finished / "checkpoint_last.pt"
    options = ["--restore-file", last, "--reset-dataloader", "--max-update", "3"]
    result = train("tree", corpora, tmp_path, *options)
    assert losses(result.output) and not SAID.search(result.output)
    by_its_name = train("tree", corpora, finished, "--restore-file", last, "--max-update", "3")
    assert SAID.search(by_its_name.output) and not losses(by_its_name.output)


@pytest.mark.long
def test_the_early_stopping_begins_anew_with_the_meters(corpora, tmp_path):
    options = LIMITS["patience"][0]
    train("tree", corpora, tmp_path, *options)
    result = train("tree", corpora, tmp_path, *options, "--reset-meters")
    assert result.output.count("end of epoch") == 3
