"""What the terminal shows while a recipe works."""

import io
import re

from fairseq_posattn.experiments.progress_display import (
    LogReader,
    ProgressDisplay,
    TrainingProgress,
)
from fairseq_posattn.files.terminal import duration

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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_training():
    clock = Clock()
    progress = TrainingProgress(1000, clock)
    assert str(progress) == "update 0 of 1,000"
    progress.read(LINES[:1])
    assert str(progress) == "update 100 of 1,000"
    clock.now = 30.0
    progress.read(LINES[1:])
    assert str(progress) == "update 400 of 1,000, valid loss 5.439 after 341, 1 min left"


def test_a_training_that_goes_on_counts_its_pace_from_there():
    clock = Clock()
    progress = TrainingProgress(10_000, clock)
    progress.read([LINES[2].replace("400", "9000")])
    clock.now = 10.0
    progress.read([LINES[2].replace("400", "9100")])
    assert str(progress) == "update 9,100 of 10,000, 2 min left"


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


def test_a_terminal_has_a_line_for_each_run():
    out = Terminal()
    display = ProgressDisplay(out)
    display.show("a", "update 1")
    display.show("b", "update 1")
    display.show("a", "update 2")
    display.finish("a", "trained")
    assert out.getvalue().split("\x1b[J")[-1] == "a: trained\nb: update 1\n"
    assert re.findall(r"\x1b\[(\d)A", out.getvalue()) == ["1", "2", "2"]


def test_names_cannot_steer_the_terminal():
    out = Terminal()
    display = ProgressDisplay(out)
    display.show("a\x1b[2J\u202e", "update\r1")
    display.finish("a\x1b[2J\u202e", "trained\n")
    shown = re.sub(r"\x1b\[(\dA\x1b\[)?J", "", out.getvalue())
    assert shown == "a\\x1b[2J\\u202e: update\\r1\na\\x1b[2J\\u202e: trained\\n\n"


def test_a_log_has_a_line_a_minute():
    out, clock = io.StringIO(), Clock()
    display = ProgressDisplay(out, clock)
    display.show("a", "begins", new=True)
    for now in range(1, 150):
        clock.now = float(now)
        display.show("a", f"at {now}")
    display.finish("a", "trained")
    display.finish("b")
    assert out.getvalue().splitlines() == ["a: begins", "a: at 60", "a: at 120", "a: trained"]


def test_durations():
    found = [duration(seconds) for seconds in (0, 59, 90, 3599, 7300, 90000)]
    assert found == ["0 s", "59 s", "2 min", "1 h 0 min", "2 h 2 min", "1 d 1 h"]


def test_a_training_that_had_ended_before():
    """Nothing is logged but the checkpoint with which it goes on."""
    progress = TrainingProgress(150)
    line = "2026 | INFO | fairseq.trainer | Loaded checkpoint /a/b.pt (epoch 4 @ 150 updates)"
    progress.read([line])
    assert str(progress) == "update 150 of 150"
