"""Record the machines on which training runs start, for reproducibility.md.

When a run is started or resumed, an entry that describes the machine and the settings is added to
runs/RUN/machine.json, unless this file already contains an identical entry. If several machines
train a run together, each machine except the first writes machine.HOST.json instead.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fairseq_posattn.io.files import write_json
from fairseq_posattn.io.records import Open, as_document, at_least, read_record
from fairseq_posattn.lab.experiments.commands import Command
from fairseq_posattn.lab.experiments.machine import Machine, Share, cores, gpu_properties
from fairseq_posattn.lab.experiments.runs import AGAIN

PACKAGES = {"torch": ["torch"], "fairseq": ["ve-fairseq", "fairseq-fixed", "fairseq"]}


@dataclass(frozen=True)
class Start(Open):
    """The hardware and software used by a training run.

    cores: number of CPU cores that the process may use.
    memory: main memory of the machine in bytes.
    gpus: names of the GPUs used on this machine.
    processes: number of worker processes on all machines.
    threads: number of threads per process, or None if it is not set.
    versions: versions of Python, torch and fairseq.
    """

    processor: str
    cores: int = field(metadata=at_least(1))
    memory: int = field(metadata=at_least(0))
    gpus: list[str]
    processes: int = field(metadata=at_least(1))
    threads: int | None = field(metadata=at_least(1))
    precision: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Starts(Open):
    """The content of machine.json."""

    starts: list[Start]


def note_start(folder: Path, command: Command, machine: Machine, share: Share) -> None:
    """Add an entry for this machine to a run's machine.json unless it has an identical entry."""
    path = folder / machine.file_name("machine")
    former = read_record(Starts, path, AGAIN).starts if path.exists() else []
    start = here(command, machine, share)
    if start not in former:
        write_json(path, as_document(Starts([*former, start])), indent=1)


def starts_in(folder: Path) -> list[Start]:
    """Return all entries in the machine*.json files of a run; old versions wrote none."""
    paths = sorted(folder.glob("machine*.json"))
    return [start for path in paths for start in read_record(Starts, path, AGAIN).starts]


def here(command: Command, machine: Machine, share: Share) -> Start:
    """Describe this machine and the resources that a training run uses on it."""
    threads = str(os.environ.get("OMP_NUM_THREADS", share.threads))
    precision = next((name for name in ("bf16", "fp16") if f"--{name}" in command), "fp32")
    return Start(
        processor=processor(),
        cores=cores(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=[gpu.name for gpu in gpu_properties(machine, share)],
        processes=machine.world(),
        threads=int(threads) if threads.isdecimal() else None,
        precision=precision,
        versions={"Python": platform.python_version(), **versions()},
    )


def processor() -> str:
    """Return the model name of the processor or, if it is unknown, the architecture."""
    if (told := Path("/proc/cpuinfo")).exists():
        for line in told.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of torch and fairseq.

    fairseq is distributed under several package names.
    """
    found: dict[str, str] = {}
    for package, names in PACKAGES.items():
        for name in names:
            try:
                told = version(name)
            except PackageNotFoundError:
                continue
            found.setdefault(package, told if name == package else f"{told} ({name})")
    return found
