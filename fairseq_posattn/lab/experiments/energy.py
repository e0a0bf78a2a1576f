"""Measure the energy consumption of training runs for reproducibility.md.

Linux counts the energy of each processor (RAPL), but on many machines only root can read these
counters. The power of each GPU is reported by nvidia-smi. Both measurements include other programs
that run on the same device.

The file runs/RUN/energy.json contains the total energy used by a run, even if the run was resumed.
If several machines train a run together, each machine except the first writes energy.HOST.json
instead. No file is written for a machine on which no energy or power can be measured.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.records import Open, as_document, at_least, read_record
from fairseq_posattn.lab.experiments.machine import Machine, Share, gpu_properties
from fairseq_posattn.lab.experiments.runs import AGAIN

ZONES = Path("/sys/class/powercap")
POWER = ("nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits", "--id")
EVERY = 10.0  # seconds between two readings
LONGEST = 120.0  # seconds; if the machine was suspended for longer, counters may have been reset


@dataclass(frozen=True)
class Energy(Open):
    """The energy used by all processors and by all GPUs in joules; None if it is unknown.

    seconds: total duration of the measurements.
    """

    processors: float | None = field(metadata=at_least(0))
    gpus: float | None = field(metadata=at_least(0))
    seconds: float = field(metadata=at_least(0))

    def __add__(self, other: Energy) -> Energy:
        return Energy(
            both(self.processors, other.processors),
            both(self.gpus, other.gpus),
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class Reading:
    """One reading of the energy counters.

    at: time of the reading in seconds.
    counters: for each processor, the counter in microjoules and the maximum value, after which it
        wraps around.
    watts: total power of the GPUs.
    """

    at: float
    counters: dict[str, tuple[int, int]] | None
    watts: float | None

    def until(self, later: Reading) -> Energy:
        seconds, processors, gpus = later.at - self.at, None, None
        if self.counters and later.counters and self.counters.keys() == later.counters.keys():
            spent = [
                (count - self.counters[zone][0]) % (most + 1)
                for zone, (count, most) in later.counters.items()
            ]
            processors = sum(spent) / 1e6
        if self.watts is not None and later.watts is not None:
            gpus = (self.watts + later.watts) / 2 * seconds
        return Energy(processors, gpus, seconds)


class Meter:
    """Measures the energy used by a run, and adds it to the totals in energy.json.

    Call `look` regularly while the run is active.
    """

    def __init__(self, folder: Path, machine: Machine, share: Share):
        self.path = folder / machine.file_name("energy")
        self.gpus = unique_names(machine, share)
        self.last = self.read()
        self.total = read_record(Energy, self.path, AGAIN) if self.path.exists() else None

    def read(self) -> Reading:
        return Reading(time.monotonic(), counters(), power(self.gpus) if self.gpus else None)

    def look(self, is_last: bool = False) -> None:
        """Read the counters and update energy.json, at most every EVERY seconds unless `is_last`.

        Intervals longer than LONGEST seconds are ignored.
        """
        if self.last.counters is None and self.last.watts is None:
            return
        if not is_last and time.monotonic() - self.last.at < EVERY:
            return
        before, self.last = self.last, self.read()
        spent = before.until(self.last)
        if spent.seconds <= LONGEST:
            self.total = spent if self.total is None else self.total + spent
            write_json(self.path, as_document(self.total))


def energy_in(folder: Path) -> Energy | None:
    """Return the total energy of a run, or None if it is unknown for one of its machines."""
    found = [read_record(Energy, path, AGAIN) for path in sorted(folder.glob("energy*.json"))]
    if not found or len(found) < len(list(folder.glob("train*.log"))):
        return None
    return sum(found[1:], start=found[0])


def both(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def counters() -> dict[str, tuple[int, int]] | None:
    """Return each processor's energy counter and its maximum; None if they cannot be read."""
    found = {}
    try:
        for zone in ZONES.glob("intel-rapl:*"):  # also the name on AMD processors
            if (zone / "name").read_text().startswith("package"):
                files = (zone / "energy_uj", zone / "max_energy_range_uj")
                count, most = (int(file.read_text()) for file in files)
                found[zone.name] = count, most
    except (OSError, ValueError):
        return None
    return found or None


def power(gpus: Sequence[str]) -> float | None:
    """Return the total power of the given GPUs in watts, or None if it is unknown."""
    try:
        done = subprocess.run(
            [*POWER, ",".join(gpus)], capture_output=True, text=True, timeout=EVERY, check=True
        )
        watts = [float(line) for line in done.stdout.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return sum(watts) if len(watts) == len(gpus) else None


def unique_names(machine: Machine, share: Share) -> list[str]:
    """Return the GPUs' UUIDs as nvidia-smi expects them, or an empty list if torch reports none."""
    found = [getattr(gpu, "uuid", None) for gpu in gpu_properties(machine, share)]
    return [] if None in found else [f"GPU-{name}" for name in found]
