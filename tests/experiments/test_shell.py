"""How the commands of a recipe are run, shown, stopped, and how their failures are told."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from fairseq_posattn.cli import recipe
from fairseq_posattn.errors import InputError
from fairseq_posattn.experiments.commands import CommandFailed, Shell
from support.commands import PATIENCE
from support.processes import children, command_line, is_alive

SAY = "import sys; print('a line'); print(sys.argv[1]); sys.exit(int(sys.argv[2]))"
WAIT = """
import os, signal, sys
from fairseq_posattn.experiments.commands import Shell
# these tests themselves may run under nohup
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "nohup" else signal.SIG_DFL)
shell = Shell()
with shell.passing_signals_on():
    print(os.getpid(), flush=True)
    shell.run(["sleep", sys.argv[2]])
print("to the end", flush=True)
"""


def say(shell: Shell, log, text: str, code: int = 0) -> None:
    shell.run([sys.executable, "-c", SAY, text, str(code)], log)


def test_a_failure_is_told_by_the_last_line_of_its_own(tmp_path):
    """What an earlier command wrote to the same log does not count."""
    log = tmp_path / "train.log"
    with pytest.raises(CommandFailed, match=rf"exit code 3: the disk is full; see {log}") as raised:
        say(Shell(), log, "error: the disk is full", 3)
    assert raised.value.code == 1
    with pytest.raises(CommandFailed, match="exit code 1: out of memory; see"):
        say(Shell(), log, "out of memory", 1)
    assert log.read_text().count("a line") == 2


def test_the_message_of_a_failure_is_whole(tmp_path, monkeypatch, capsys):
    """What to do stands at the end of what the command said, before the name of a long log."""
    message = f"found {'x' * 190}; do this, and then do that, which mends all of it"
    monkeypatch.setattr(recipe, "experiment_of", lambda _: SimpleNamespace(shell=Shell()))
    monkeypatch.setitem(
        recipe.OF_EXPERIMENT,
        recipe.step.Table,
        lambda *_: say(Shell(), tmp_path / ("l" * 90), f"error: {message}", 3),
    )
    monkeypatch.setattr(sys, "argv", ["posattn recipe", "table", "any"])
    with pytest.raises(SystemExit):
        recipe.main()
    assert f"exit code 3: {message}; see {tmp_path}/lll" in capsys.readouterr().err


def test_of_several_commands_the_others_are_stopped(tmp_path):
    commands = [["sleep", "600"], [sys.executable, "-c", SAY, "error: none", "1"]]
    logs = [tmp_path / "0", tmp_path / "1"]
    with pytest.raises(InputError, match="exit code 1: none; see"):
        Shell().run_at_once(commands, logs, [{}, {}])


def test_commands_that_are_shown_can_be_copied(capsys, tmp_path):
    shell = Shell(dry_run=True)
    shell.run(["echo", "a b", tmp_path / "$x"], environment={"GPUS": "0,1"})
    assert capsys.readouterr().out == f"GPUS=0,1 echo 'a b' '{tmp_path}/$x'\n"
    assert not shell.does("something")


def started(*arguments: str) -> tuple[subprocess.Popen, int]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, *arguments], stdout=subprocess.PIPE, text=True
    )
    return process, int(process.stdout.readline())


def commands_of(pid: int) -> list[int]:
    """Return the running commands of a shell, without forks that have not called exec yet."""
    return [child for child in children(pid) if command_line(child).startswith(b"sleep")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_ends_the_command_too(number):
    process, pid = started("plain", "600")
    while not commands_of(pid):
        time.sleep(0.01)
    [child] = commands_of(pid)
    os.kill(pid, number)
    assert process.wait() == -number
    assert process.stdout.read() == ""
    assert not os.path.exists(f"/proc/{child}")


FAMILY = """
import sys
from fairseq_posattn.experiments.commands import Shell
shell = Shell()
with shell.passing_signals_on():
    shell.run(["sh", "-c", "setsid sleep 600 & sleep 600 & echo $$ $! && wait"])
"""


def test_kill_9_ends_all_that_the_command_has_started():
    """Even what runs in a session of its own, as the workers of torchrun do."""
    process = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, text=True)
    command = int(process.stdout.readline().split()[0])
    while len(family := [command, *children(command)]) < 3:
        time.sleep(0.01)
    process.kill()
    process.wait()
    process.stdout.close()
    end = time.monotonic() + PATIENCE
    while left := [pid for pid in family if is_alive(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.01)


EARLY = """
import os, signal, subprocess
from fairseq_posattn.experiments.commands import Shell

class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        print(self.pid, flush=True)
        os.kill(os.getpid(), signal.SIGINT)

shell = Shell()
with shell.passing_signals_on():
    subprocess.Popen = Popen
    shell.run(["sleep", "600"])
"""


def test_a_signal_while_a_command_starts():
    """The signal comes when the command runs, and the shell does not know it yet."""
    found = subprocess.run([sys.executable, "-c", EARLY], stdout=subprocess.PIPE, text=True)
    assert found.returncode == -signal.SIGINT
    assert not os.path.exists(f"/proc/{int(found.stdout)}")


def test_nohup_is_kept():
    process, pid = started("nohup", "1")
    while not commands_of(pid):
        time.sleep(0.01)
    os.kill(pid, signal.SIGHUP)
    assert process.communicate()[0] == "to the end\n" and process.returncode == 0
