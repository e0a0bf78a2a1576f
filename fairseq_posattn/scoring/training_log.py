"""Read the losses, speed and duration of a training run from the logs of fairseq-train."""

import heapq
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.files import read_lines
from fairseq_posattn.scoring.score_record import Losses, Training

UPDATE = "[0-9]{1,15}"
PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([0-9][0-9,]{0,19})(?![0-9.,_])")
ARCHITECTURES = (
    re.compile(r"'model': \{'_name': '([^']+)'"),
    re.compile(r"\barch='([^']+)'"),  # printed by models without a dataclass of options
)
RESUMED = re.compile(rf"Loaded checkpoint .* @ ({UPDATE}) updates\)")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
# Logged when a training run starts; the time from an interruption to the restart is not counted.
BEGINS = re.compile(
    r"\| (?:fairseq_cli\.train \| \{|fairseq\.(?:distributed\.utils|tasks\.text_to_speech) \|)"
)
STARTED = "No existing checkpoint found"
INNER = re.compile(rf"epoch ({UPDATE}): +\d+ / \d+ (.+)$")
PRINTED = re.compile(rf"epoch ({UPDATE}) \| (?:valid on '([^']+)' subset \| )?(.+)$")
JSON = re.compile(r"(?:^|\| )(\{\".+\})$")
INSIDE = ""  # `subset` of the lines that fairseq prints within an epoch
TRAIN = "train"


class Measured(NamedTuple):
    """The numbers in a log line. `subset` is TRAIN, INSIDE or the name of a validation set."""

    subset: str
    update: int
    epoch: int | None
    loss: float | None
    words_per_second: float | None


@dataclass
class Course:
    """The values read from the logs of a training run.

    points: the log lines by subset and update.
    seconds: the training time, summed over all restarts; None if the log has no timestamps.
    """

    parameters: int | None = None
    architecture: str = ""
    points: dict[str, dict[int, Measured]] = field(default_factory=dict)
    update: int = 0
    seconds: float | None = None
    now: datetime | None = None

    def add(self, figures: Measured) -> None:
        """Record the values in a log line.

        If the update number decreases, as after a resume, all entries from this update on are
        dropped first.
        """
        if figures.update < self.update:
            self.go_back(figures.update - 1)
        self.update = figures.update
        self.points.setdefault(figures.subset, {})[figures.update] = figures

    def pass_time(self, line: str) -> None:
        """Add the time since the previous line, unless this line reports that training starts."""
        if not (told := TIME.match(line)):
            return
        with suppress(ValueError):  # a damaged line may contain an invalid date
            before, self.now = self.now, datetime.fromisoformat(told[0])
            passed = max(0.0, (self.now - (before or self.now)).total_seconds())
            self.seconds = (self.seconds or 0.0) + (0.0 if BEGINS.search(line) else passed)

    def go_back(self, update: int) -> None:
        """Discard the log lines of updates after `update`."""
        for subset, course in self.points.items():
            self.points[subset] = {k: one for k, one in course.items() if k <= update}
        self.update = update

    def speeds(self, subset: str) -> list[float]:
        """Return the training speeds in words per second."""
        found = (one.words_per_second for one in self.points.get(subset, {}).values())
        return [speed for speed in found if speed is not None]

    def curve(self) -> list[Losses]:
        """Return the losses at each validation on the first validation set."""
        valid = next((of for s, of in self.points.items() if s not in (INSIDE, TRAIN)), {})
        train = self.points.get(INSIDE) or self.points.get(TRAIN) or {}
        updates = sorted(train)
        points = []
        for update, one in sorted(valid.items()):
            before = bisect_right(updates, update)
            nearest = train[updates[before - 1]].loss if before else None
            points.append(Losses(update=update, train_loss=nearest, valid_loss=one.loss))
        return points


def training(paths: Sequence[str]) -> Training:
    """Read the logs of a training run on all machines, and return the `training` JSON object."""
    found = read_training(paths)
    if found.parameters is None and not found.points:
        raise InputError(
            f"{', '.join(paths)}: found neither parameters nor losses; use a log that "
            "fairseq-train wrote with --log-format simple or json"
        )
    speeds = found.speeds(INSIDE) or found.speeds(TRAIN)
    return Training(
        parameters=found.parameters,
        architecture=found.architecture,
        words_per_second=median(speeds) if speeds else None,
        curve=found.curve(),
    )


def read_training(paths: Sequence[str]) -> Course:
    """Read the logs of a training run, which may be resumed and may use several machines."""
    found = Course()
    # With several machines, only one log contains losses. The start messages in the other logs are
    # ignored: if a clock is fast, they would follow the first updates and discard their losses.
    telling = {p for p in paths if len(paths) == 1 or any(map(measured_in, read_lines(p)))}
    # in chronological order: after an interruption, the losses may be in another machine's log
    for _, path, line in heapq.merge(*map(timed, paths), key=itemgetter(0)):
        if path in telling:
            found.pass_time(line)
        if figures := measured_in(line):
            found.add(figures)
        elif path in telling and (match := RESUMED.search(line)):
            found.go_back(int(match[1]))
        elif path in telling and STARTED in line:
            found.go_back(0)
        elif match := PARAMETERS.search(line):
            found.parameters = int(match[1].replace(",", ""))
        else:
            matches = (pattern.search(line) for pattern in ARCHITECTURES)
            found.architecture = next((m[1] for m in matches if m), found.architecture)
    return found


def timed(path: str) -> Iterator[tuple[str, str, str]]:
    """Yield (timestamp, path, line); lines without a timestamp get that of the previous line."""
    time = ""
    for line in read_lines(path):
        if found := TIME.match(line):
            time = found[0]
        yield time, path, line


def measured_in(line: str) -> Measured | None:
    """Return the numbers in a log line (--log-format simple or json); None if there are none."""
    if match := JSON.search(line):
        return measured_in_json(match[1])
    if match := INNER.search(line):
        return measured(INSIDE, {"epoch": match[1], **dict(pairs(match[2], ", ", "="))})
    if match := PRINTED.search(line):
        return measured(match[2] or TRAIN, {"epoch": match[1], **dict(pairs(match[3], " | ", " "))})
    return None


def pairs(text: str, between: str, within: str) -> Iterator[tuple[str, str]]:
    for item in text.split(between):
        name, _, value = item.partition(within)
        yield name, value


def measured_in_json(text: str) -> Measured | None:
    """Return the numbers in a log line in JSON; None if there are none."""
    try:
        figures = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if "num_updates" in figures:
        return measured(INSIDE, figures)
    end = "_num_updates"
    subset = next((key.removesuffix(end) for key in figures if key.endswith(end)), "")
    start = f"{subset}_"
    ours = {k.removeprefix(start): value for k, value in figures.items() if k.startswith(start)}
    return measured(subset, {"epoch": figures.get("epoch"), **ours}) if subset else None


def measured(subset: str, figures: dict[str, Any]) -> Measured | None:
    """Return the numbers in a log line, or None if the line contains no update number."""
    updates, epoch = str(figures.get("num_updates", "")), str(figures.get("epoch", ""))
    if not re.fullmatch(UPDATE, updates):
        return None
    loss, words = (finite(figures.get(name)) for name in ("loss", "wps"))
    number = int(epoch) if re.fullmatch(UPDATE, epoch) else None
    return Measured(subset, int(updates), number, loss, words)


def finite(value: Any) -> float | None:
    """Convert a value to a number; return None if it is missing or not finite (invalid in JSON)."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None
