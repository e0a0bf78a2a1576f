"""Describe the machine that a run is trained on."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fairseq_posattn.io.progress import size_of
from fairseq_posattn.lab.experiments.machine import Machine, Share, cores, gpu_properties

PACKAGES = {"torch": ["torch"], "fairseq": ["ve-fairseq", "fairseq-fixed", "fairseq"]}


def described(machine: Machine, share: Share, command: Sequence[object]) -> str:
    """Return the hardware, the number of processes and the versions that a training uses.

    command: the training command, which contains the precision.

    Example:

        Intel Xeon, 2 cores, 25.2 GB, no GPU; 1 process, fp32; Python 3.11.7, torch 2.13.0, ...
    """
    counts = Counter(gpu.name for gpu in gpu_properties(machine, share))
    gpus = " + ".join(f"{count} x {name}" for name, count in counts.items()) or "no GPU"
    memory = size_of(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    processes = f"{machine.world()} process{'es' * (machine.world() > 1)}"
    precision = next((name for name in ("bf16", "fp16") if f"--{name}" in command), "fp32")
    of_cores = f"{cores()} core{'s' * (cores() > 1)}"
    programs = [f"Python {platform.python_version()}", *versions()]
    return f"{processor()}, {of_cores}, {memory}, {gpus}; {processes}, {precision}; " + ", ".join(
        programs
    )


def processor() -> str:
    """Return the model name of the processor or, if it is unknown, the architecture."""
    if (path := Path("/proc/cpuinfo")).exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> list[str]:
    """Return the versions of torch and of fairseq, which is distributed under several names."""
    found = []
    for package, names in PACKAGES.items():
        for name in names:
            try:
                found.append(f"{package} {version(name)}")
            except PackageNotFoundError:
                continue
            break
    return found
