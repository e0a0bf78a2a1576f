"""What the terminal shows while a recipe works."""

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest

from fairseq_posattn.experiments.training import LogReader, TrainingProgress
from fairseq_posattn.files.progress import Progress, ProgressDisplay

LINES = """\
2026 | INFO | train_inner | epoch 001:    100 / 341 loss=7.1, num_updates=100, lr=0.0013
2026 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 5.439 | ppl 20 | num_updates 341
2026 | INFO | train_inner | epoch 002:     59 / 341 loss=5.1, ups=1.12, num_updates=400, lr=0.0035
""".splitlines()
JSON = '{"epoch": 2, "update": 1.2, "loss": "3.1", "num_updates": "400", "lr": "0.001"}'


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_training():
    clock = Clock()
    progress = TrainingProgress(1000, clock)
    assert str(progress) == "update 0 of 1,000"
    progress.read(LINES[:1])
    assert str(progress) == "update 100 of 1,000"
    clock.now = 30.0
    progress.read(LINES[1:])
    assert str(progress) == "update 400 of 1,000, valid loss 5.439 after 341, 01:00 left"


def test_a_training_that_goes_on_counts_its_pace_from_there():
    clock = Clock()
    progress = TrainingProgress(10_000, clock)
    progress.read([LINES[2].replace("400", "9000")])
    clock.now = 10.0
    progress.read([LINES[2].replace("400", "9100")])
    assert str(progress) == "update 9,100 of 10,000, 01:30 left"


def test_logs_in_json():
    progress = TrainingProgress(800)
    progress.read([JSON, '{"valid_loss": "4.25", "valid_num_updates": "400"}'])
    assert str(progress).startswith("update 400 of 800, valid loss 4.25 after 400")


def test_a_log_is_read_as_it_grows(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("of an earlier start\n")
    reader = LogReader(log)
    with open(log, "a") as file:
        file.write("one\ntw")
        file.flush()
        assert reader.new_lines() == ["one"]
        file.write("o\nthree\n")
        file.flush()
    assert reader.new_lines() == ["two", "three"]
    assert LogReader(tmp_path / "none").new_lines() == []


@contextmanager
def terminal(shown: list[str]) -> Iterator[None]:
    """Make stderr a terminal with 40 columns and 10 lines; append what it shows to `shown`."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 40, 0, 0))
    with open(inner, "w") as stderr, redirect_stderr(stderr):
        yield
        print(end="END", file=stderr, flush=True)
        found = b""
        while not found.endswith(b"END"):
            found += os.read(outer, 4096)
        shown.append(found[:-3].decode().replace("\r\n", "\n"))
    os.close(outer)


def screen(shown: str) -> list[str]:
    """Return the lines on a terminal after this output."""
    lines, row, column = [""], 0, 0
    for part in re.split(r"(\r|\n|\x1b\[A)", shown):
        if part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part == "\x1b[A":
            row -= 1
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]


def test_a_terminal_has_a_line_for_each_run():
    shown = []
    display = ProgressDisplay()
    with terminal(shown):
        display.show("a", "update 1")
        display.show("b", "update 1")
        display.show("a", "update 2", new=True)
    assert screen(shown[0])[:2] == ["a: update 2", "b: update 1"]
    with terminal(shown):
        display = ProgressDisplay()
        display.show("a", "update 1")
        display.show("b", "update 1")
        display.finish("a", "trained")
        display.show("b", "update 2", new=True)
    assert screen(shown[1]) == ["a: trained", "", "b: update 2"]


def test_a_long_line_is_cut():
    shown = []
    with terminal(shown):
        display = ProgressDisplay()
        display.show("a", "update " * 9)
    assert [len(line) for line in screen(shown[0])] == [39]


def test_names_cannot_steer_the_terminal():
    shown = []
    with terminal(shown):
        display = ProgressDisplay()
        display.show("a\x1b[2J\u202e", "update\r1")
        display.finish("a\x1b[2J\u202e", "trained\n")
    assert "a\\x1b[2J\\u202e: update\\r1" in shown[0] and "\x1b[2" not in shown[0]
    assert screen(shown[0])[0] == "a\\x1b[2J\\u202e: trained\\n"


@pytest.mark.parametrize("seconds", [0, 1e9])
def test_a_log_has_a_line_per_step_and_interval(seconds, capsys):
    display = ProgressDisplay(seconds)
    display.show("a", "begins", new=True)
    display.show("a", "update 1")
    display.show("a", "decodes", new=True)
    display.finish("a", "trained")
    display.finish("b")
    shown = list(dict.fromkeys(capsys.readouterr().err.splitlines()))
    assert shown == [
        "a: begins",
        *(["a: update 1"] if not seconds else []),
        "a: decodes",
        "a: trained",
    ]


@pytest.mark.parametrize("seconds", [0, 1e9])
def test_a_loop_in_a_log_has_a_line_per_interval(seconds, capsys):
    progress = Progress(total=40, done=10, unit="lines", seconds=seconds)
    progress.show(20)
    progress.show(25)
    progress.close()
    lines = dict.fromkeys(line.split(" [")[0] for line in capsys.readouterr().err.splitlines())
    shown = ["25%|##5       | 10/40", "50%|#####     | 20/40", "62%|######2   | 25/40"]
    assert list(lines) == ([] if seconds else shown)


def test_a_training_that_had_ended_before():
    """Nothing is logged but the checkpoint with which it goes on."""
    progress = TrainingProgress(150)
    line = "2026 | INFO | fairseq.trainer | Loaded checkpoint /a/b.pt (epoch 4 @ 150 updates)"
    progress.read([line])
    assert str(progress) == "update 150 of 150"
