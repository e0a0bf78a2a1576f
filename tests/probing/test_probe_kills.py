"""posattn-probe is killed at random moments, and goes on where it was."""

import json
import sys

import pytest

from support.commands import PLUGIN
from support.killed import killed_at_random_moments


@pytest.mark.long
def test_a_run_killed_at_random_moments_finds_the_same(world, tmp_path):
    def command(out):
        words = [
            sys.executable,
            "-m",
            "fairseq_posattn.cli.probe",
            world.data,
            "--user-dir",
            PLUGIN,
        ]
        words += ["--path", f"tree={world.models['tree']}", "--tasks", world.tasks, "--cpu"]
        words += ["--task", "SentLen", "--trees", world.trees, "--classifier", "linear"]
        return [*words, "--json", out / "probes.json", "--work", out / "work"]

    found = []
    for out in killed_at_random_moments(command, tmp_path):
        found.append(json.loads((out / "probes.json").read_text()))
        names = sorted(path.suffix for path in (out / "work/vectors").iterdir())
        assert ".growing" not in names and names.count(".npy") == 2  # trained and untrained
    assert all(one == found[0] for one in found)
