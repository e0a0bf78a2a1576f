"""alone_in and in_turn of recipes/common.sh keep two runs of a recipe on one folder apart."""

import os
import signal
import subprocess

from support.commands import ROOT

COMMON = ". recipes/common.sh; recipe=toy; "


def shell(script: str, *arguments, **options) -> subprocess.Popen:
    command = ["bash", "-euo", "pipefail", "-c", COMMON + script, "bash", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes, **options)


def test_a_second_run_in_one_folder_is_refused(tmp_path):
    work = tmp_path / "a folder"
    script = 'alone_in "$1"; echo alone; read -r'
    with shell(script, work) as first:
        assert first.stdout.readline() == "alone\n"
        second = shell(script, work)
        printed, error = second.communicate()
        assert (second.returncode, printed) == (1, "")
        remedy = "another run works in this folder; wait for its end, or name another folder"
        assert error == f"toy: {work}: {remedy}\n"
        first.communicate("\n")
    with shell(script, work) as third:
        assert third.stdout.readline() == "alone\n"
        third.communicate("\n")


def test_what_outlives_a_killed_recipe_keeps_the_lock(tmp_path):
    with shell(
        'alone_in "$1"; sleep 600 & echo alone; wait', tmp_path, start_new_session=True
    ) as first:
        assert first.stdout.readline() == "alone\n"
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        try:
            assert shell('alone_in "$1"', tmp_path).wait() == 1
        finally:
            os.killpg(first.pid, signal.SIGKILL)


def test_runs_that_take_turns(tmp_path):
    count = tmp_path / "count"
    count.write_text("0\n")
    add = 'add() { local n; n=$(<"$1"); sleep 0.2; echo $((n + 1)) >"$1"; }; '
    runs = [shell(add + 'in_turn "$1" add "$2"', tmp_path, count) for _ in range(5)]
    assert [run.wait() for run in runs] == [0] * 5
    assert count.read_text() == "5\n"
