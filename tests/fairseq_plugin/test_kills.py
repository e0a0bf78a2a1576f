"""Trainings of every kind, killed at random moments again and again, end as unbroken ones.

KILLS and KILLS_SEED (tests/support/killed.py) say how often; what was going on then is printed.
"""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from fairseq_posattn.fairseq_plugin.patches import atomic
from support.background import Training
from support.killed import KILLS, SEED
from support.trainings import KINDS, assert_same_model, training

COMMON = ["--max-epoch", "3", "--save-interval-updates", "2", "--keep-interval-updates", "2"]
COMMON += ["--keep-last-epochs", "1", "--num-workers", "1"]
OPTIONS = {
    "tree": ["--patience", "9"],
    "stock": [],
    "tagger": ["--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"],
    "lm": [
        *("--lr-scheduler", "reduce_lr_on_plateau", "--lr-patience", "0", "--lr-shrink", "0.5"),
        *("--lr-threshold", "0.5"),
    ],
}
# What a life waits for before it is killed, and how often at most
MOMENTS = [("Preparing to load", 1), ("train_inner", 5), ("begin validation", 2)]
MOMENTS += [("Preparing to save", 2), ("Saving checkpoint", 2), ("done training", 1)]
PHASES = {  # the last of these in the log says what a kill fell into
    "Preparing to load": "loading",
    "Start iterating": "training",
    "train_inner": "training",
    "begin validation": "validating",
    "| valid |": "training",
    "Preparing to save": "saving",
    "Saved checkpoint": "training",
    "done training": "ending",
}


def phase(log: str) -> str:
    where, found = max((log.rfind(text), found) for text, found in PHASES.items())
    return found if where >= 0 else "starting"


def killed(arguments: list, dice: random.Random) -> str | None:
    """What the training was doing when it was killed; None if it had ended before."""
    text, most = dice.choice(MOMENTS)
    with Training.of(arguments) as process:
        process.wait_for(text, dice.randint(1, most))
        time.sleep(dice.random() / 5)
        alive = process.process.poll() is None
        process.kill()  # may outlive it for a while: the data loader
        assert alive or process.process.returncode == 0, process.printed()[-3000:]
        return phase(process.printed()) if alive else None


def finished(folder: Path, arguments: list) -> None:
    """Train to the end, which leaves no trace of kills."""
    with Training.of(arguments) as process:
        assert process.wait() == 0, process.printed()[-3000:]
    assert not (folder / atomic.MARK).exists() and not list(folder.glob("*.partial.*"))


@pytest.mark.long(ci=["tree"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(kind, corpora, tmp_path):
    options = [*COMMON, *OPTIONS[kind]]
    finished(tmp_path / "whole", training(kind, corpora, tmp_path / "whole", *options))
    dice, phases, rounds = random.Random(f"{SEED} {kind}"), Counter(), 0
    while phases.total() < KILLS:  # a training may end before it is killed often enough
        folder = tmp_path / f"killed{rounds}"
        arguments = training(kind, corpora, folder, *options)
        while phases.total() < KILLS and (found := killed(arguments, dice)):
            phases[found] += 1
        finished(folder, arguments)
        for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
            assert_same_model(folder / name, tmp_path / "whole" / name)
        rounds += 1
    print(f"\n{kind}: {phases.total()} kills in {rounds} trainings, {dict(phases)}")
