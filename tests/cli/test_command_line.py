"""Whatever a command ends with: one line of at most 300 characters, exit code 1."""

import errno
import os
import pickle
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.patches.safe import CheckpointError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.command_line import LONGEST, TRACEBACK, UNEXPECTED, one_line
from fairseq_posattn.files.lock import locked, this_process
from fairseq_posattn.files.records import at_least, between, option
from fairseq_posattn.files.requests import Parser, asked
from fairseq_posattn.files.terminal import say
from fairseq_posattn.trees.checks import TreeError
from support.commands import ROOT
from support.in_process import end_of


def ended(capsys, error: BaseException) -> str:
    """The line that a command prints when this error ends it."""

    def main():
        raise error

    with pytest.raises(SystemExit) as end:
        command_line.run(main)
    assert end.value.code == 1
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1 and printed.err.endswith("\n")
    assert len(printed.err) <= LONGEST + 1
    return printed.err.rstrip("\n")


@pytest.mark.parametrize(
    "kind", [InputError, TreeError, SpecificationError, CheckpointError, OSError]
)
def test_errors_of_ours_are_printed_as_they_are(capsys, kind):
    assert ended(capsys, kind("text:3: bad; mend it")) == "error: text:3: bad; mend it"


def test_a_line_break_or_control_character_does_not_break_the_line(capsys):
    message = "a\nb:3: found '\x1b[2J\r\0\u2028\u202e\ud800\ufeff' ; \n mend it\n"
    found = r"error: a b:3: found '\x1b[2J\r\x00\u2028\u202e\ud800\ufeff' ; mend it"
    assert ended(capsys, InputError(message)) == found


def test_options_and_what_is_said_cannot_steer_the_terminal(capsys):
    with pytest.raises(SystemExit) as end:
        Parser(prog="x").parse_args(["a\nerror: \x1b[2J\u202e"])
    assert end.value.code == 2
    say("a\n\x1b[2J\u202e")
    printed = capsys.readouterr().err
    assert "\x1b" not in printed and "\u202e" not in printed
    assert printed.endswith("\na\\n\\x1b[2J\\u202e\n")


def test_a_long_line_keeps_the_file_name_and_the_remedy(capsys):
    line = ended(capsys, InputError(f"{'d' * 90}/text:3: found '{'x' * 9999}'; mend it with tr"))
    assert len(line) == LONGEST
    assert line.startswith(f"error: {'d' * 90}/text:3: found 'xxx")
    assert line.endswith("xxx'; mend it with tr") and "x...x" in line


def test_a_long_remedy_is_not_cut(capsys):
    remedy = (
        f"; choose another --save-dir, or, to train one model with all, {'give options ' * 10}now"
    )
    line = ended(capsys, InputError(f"another training writes to /{'d' * 150}{remedy}"))
    assert len(line) == LONGEST
    assert line.startswith("error: another training writes to /ddd") and line.endswith(remedy[2:])


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, 5 * LONGEST])
def test_a_line_is_as_long_as_it_may_be(length):
    assert len(one_line("x" * length)) == min(length, LONGEST)
    assert len(one_line("x" * length, "; remedy")) <= LONGEST
    assert one_line("x" * length, "; remedy").endswith("; remedy")


def test_what_nobody_foresaw_is_one_line_and_its_traceback_is_kept(capsys):
    line = ended(capsys, KeyError("lost"))
    assert line.startswith(f"error: {UNEXPECTED} (test_command_line.py:")
    assert "KeyError: 'lost'" in line
    file = Path(line.partition("; traceback: ")[2])
    assert "Traceback" in file.read_text() and "KeyError: 'lost'" in file.read_text()
    file.unlink()


def test_where_no_traceback_can_be_kept_the_line_says_how_to_see_it(capsys, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    assert ended(capsys, KeyError("lost")).endswith(f"; set {TRACEBACK}=1 to see the traceback")


@pytest.mark.parametrize("error", [InputError("text:3: bad; mend it"), KeyError("lost")])
def test_the_traceback_is_printed_on_request(capsys, monkeypatch, error):
    monkeypatch.setenv(TRACEBACK, "1")

    def main():
        raise error

    with pytest.raises(SystemExit):
        command_line.run(main)
    lines = capsys.readouterr().err.rstrip("\n").split("\n")
    assert lines[0].startswith("Traceback")
    assert lines[-1].startswith("error: ") and "traceback:" not in lines[-1]


def test_memory(capsys):
    assert ended(capsys, MemoryError()).startswith("error: there is not enough memory")


class Torn(torch.utils.data.Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 1

    def __getitem__(self, k):
        raise pickle.loads(pickle.dumps(self.error))


def error_of_a_worker(error) -> Exception:
    loading = iter(torch.utils.data.DataLoader(Torn(error), num_workers=1))
    with pytest.raises(type(error)) as raised:
        next(loading)
    loading._shutdown_workers()  # torch has no other way, and waits for five seconds by itself
    return raised.value


def test_an_error_of_a_process_that_loads_data_is_one_line(capsys):
    error = error_of_a_worker(TreeError("text:3: bad; mend it"))
    assert ended(capsys, error) == "error: text:3: bad; mend it"
    line = ended(capsys, error_of_a_worker(AttributeError("lost")))
    assert line.startswith(f"error: {UNEXPECTED}") and "AttributeError: lost" in line


def fail(rank: int, error: Exception) -> None:
    raise error


IN_WORKER = """Caught an error in a process.
Traceback (most recent call last):
  File "work.py", line 3, in work
fairseq_posattn.errors.InputError: text:3: bad; mend it
"""


def test_an_error_of_a_worker_is_its_last_line(capsys):
    assert ended(capsys, RuntimeError(IN_WORKER)) == "error: text:3: bad; mend it"


@pytest.mark.long
def test_an_error_of_a_training_process_is_one_line(capsys):
    """As fairseq starts one for each GPU."""
    with pytest.raises(Exception, match="Traceback") as raised:
        torch.multiprocessing.spawn(fail, (InputError("text:3: bad; mend it"),))
    assert ended(capsys, raised.value) == "error: text:3: bad; mend it"


PROGRAMS = sorted(
    path
    for path in (ROOT / "recipes").rglob("*.py")
    if 'if __name__ == "__main__"' in path.read_text()
)
COMMANDS = sorted(
    path
    for path in (ROOT / "fairseq_posattn/cli").glob("*.py")
    if path.stem not in ("__init__", "fairseq_programs", "main")
)


def test_every_program_ends_in_one_line():
    for path in PROGRAMS:
        assert path.read_text().rstrip().endswith("command_line.run(main)"), path
    for path in COMMANDS:
        assert re.search(r"\brun(\(|, )main\)", path.read_text()), path


def test_steps_in_a_checkout():
    """Each file of preprocess/ runs the command of its name."""
    steps = {path.stem: path.read_text() for path in (ROOT / "preprocess").glob("*.py")}
    assert len(steps) == 8
    for name, text in steps.items():
        assert f"from fairseq_posattn.cli.{name} import main" in text
        assert 'if __name__ == "__main__":' in text  # worker processes import it


@pytest.mark.parametrize(
    ("command", "option", "arguments"),
    [
        ("average", "--out", ["{0}", "--last", "1"]),
        ("score", "--json", ["{0}/hyp", "--references", "{0}/ref"]),
        ("report", "--out", ["{0}/a.json"]),
        ("probe", "--json", ["{0}", "--path", "a=a.pt", "--tasks", "{0}"]),
    ],
)
def test_a_second_run_with_the_same_output(command, option, arguments, tmp_path):
    """The first one goes on, and its lock leaves nothing behind."""
    (tmp_path / "checkpoint1.pt").touch()
    out = tmp_path / "out"
    words = [word.format(tmp_path) for word in arguments]
    with locked(out):
        line = end_of(command, *words, option, out)
        assert line == (
            f"error: {out}: another run is writing here ({this_process()}); wait until it ends, or "
            "stop it"
        )
    assert "another run" not in end_of(command, *words, option, out)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint1.pt"]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    command: ClassVar = "posattn x"
    n: int = option("any", 0)
    x: float = option("any", 0.0)
    p: int = option("positive", 1, at_least(1))
    few: int = option("few", 1, between(1, 1024))
    s: float = option("share", 0.0, between(0.0, 1.0))


ODD = ["1_0", "１.5", "٣", "²", "+1", "01", " 1", "", "1e400", "nan", "-inf", "--", "9" * 400]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["n", "x", "p", "few", "s"])
def test_numbers_on_command_lines_are_plain(odd, name, capsys):
    """int() and float() read most of these, too."""
    if odd == "9" * 400 and name == "x":
        odd = "1e309"
    with pytest.raises(SystemExit) as end:
        asked(Numbers, None, [f"--{name}={odd}"])
    line = capsys.readouterr().err.splitlines()[-1]
    assert end.value.code == 2 and len(line) <= LONGEST
    assert line.startswith(f"posattn x: error: argument --{name}: expected a")


def test_numbers_and_their_limits(capsys):
    words = ["--n", "-3", "--x=-1e-3", "--p", "10", "--few=1024", "--s", ".5"]
    assert asked(Numbers, None, words) == Numbers(n=-3, x=-0.001, p=10, few=1024, s=0.5)
    for word, expected in (
        ("--p=0", "a number above 0, found '0'"),
        ("--few=1025", "a whole number from 1 to 1,024, found '1025'"),
        ("--s=1.5", "a number from 0 to 1, found '1.5'"),
    ):
        with pytest.raises(SystemExit):
            asked(Numbers, None, [word])
        assert capsys.readouterr().err.endswith(f": expected {expected}\n")
