"""A real Slurm of two nodes on this machine, as far as Debian's slurm-wlm is installed."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import PATIENCE, ROOT
from support.loopback import Loopback

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol")
NODES = ("n1", "n2")
CPUS, MEGABYTES = 2, 12000
UNDER_WAY = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED")
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2000
KillWait=2
SlurmdTimeout=30
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
{nodes}
PartitionName=main Nodes=ALL Default=YES PriorityTier=2 PreemptMode=OFF
PartitionName=requeued Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=30
PartitionName=cancelled Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=30
"""
NODE = "NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory={megabytes}"
START_NODE = "hostname {name} && mount --bind {folder}/hosts /etc/hosts && exec slurmd -N {name}"


class Slurm:
    """Its daemons run in a network of their own until the `with` block ends."""

    def __init__(self, folder: Path):
        if lacking := [name for name in PROGRAMS if not shutil.which(name)]:
            pytest.skip(f"no Slurm here ({lacking[0]} not found): apt-get install slurm-wlm")
        self.folder = folder
        self.network = Loopback()
        without = {name: value for name, value in os.environ.items() if not of_slurm(name)}
        self.environment = {**without, "SLURM_CONF": f"{folder}/slurm.conf"}

    def __enter__(self):
        try:
            self.configure()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.network.__exit__()

    def configure(self) -> None:
        for name in ("state", *NODES):
            (self.folder / name).mkdir(parents=True)
        host = socket.gethostname().partition(".")[0]
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost {' '.join(NODES)} {host}\n")
        nodes = [
            NODE.format(name=name, port=7001 + k, cpus=CPUS, megabytes=MEGABYTES)
            for k, name in enumerate(NODES)
        ]
        text = CONFIGURATION.format(host=host, folder=self.folder, nodes="\n".join(nodes))
        (self.folder / "slurm.conf").write_text(text)

    def start(self) -> None:
        self.run("slurmctld")
        for name in NODES:
            self.start_node(name)
        self.wait_until(lambda: self.run("sinfo", "-hNo", "%T").split() == ["idle"] * 6)

    def start_node(self, name: str) -> None:
        """Start a machine with a host name of its own."""
        start = START_NODE.format(name=name, folder=self.folder)
        self.run("unshare", "--mount", "--uts", "bash", "-c", start)

    def run(self, *command, check: bool = True, env: dict | None = None, cwd: Path = ROOT) -> str:
        """Return what a command prints on a machine of this cluster."""
        result = subprocess.run(
            self.network.inside(*command, cwd=cwd),
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if check and result.returncode:
            raise AssertionError(f"{command} ended with {result.returncode}: {result.stdout}")
        return result.stdout

    def start_in_background(self, *command) -> subprocess.Popen:
        """A command with a process group of its own."""
        return subprocess.Popen(
            self.network.inside(*command, cwd=ROOT),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.said()
            time.sleep(0.2)

    def wait_for_jobs(self) -> None:
        self.wait_until(lambda: not self.run("squeue", "-h"))

    def said(self) -> str:
        """What helps to find out why a test fails."""
        logs = "".join((path.read_text()[-2000:]) for path in self.folder.glob("*.log"))
        return f"{self.run('squeue', check=False)}\n{self.run('sinfo', check=False)}\n{logs}"

    def sbatch(self, *options, **kwargs) -> str:
        """The number of the job that is submitted."""
        return self.run("sbatch", "--parsable", *options, **kwargs).split()[-1]

    def take_nodes(self, *options) -> str:
        """A job that takes whole nodes for a moment, from jobs of the partitions that give way."""
        whole = ["--cpus-per-task", CPUS, "--output=/dev/null"]
        return self.sbatch(*options, *whole, "--wrap", "sleep 1")

    def show(self, job: str) -> dict[str, str]:
        """What Slurm knows of a job, or of one task of an array."""
        shown = self.run("scontrol", "show", "job", "-o", job)
        return dict(re.findall(r"(\w+)=(\S*)", shown))

    def state(self, job: str) -> str:
        return self.show(job)["JobState"]

    def state_at_the_end(self, job: str) -> str:
        """The state of a job, once it neither waits, nor runs, nor is being tidied up."""
        self.wait_until(lambda: self.state(job) not in UNDER_WAY)
        return self.state(job)

    def begin_soon(self, job: str) -> None:
        """Take from a job that was queued again the two minutes that Slurm lets it wait, but for
        some seconds, within which it would refuse the job as the one that has just ended."""
        self.wait_until(lambda: self.show(job)["Restarts"] != "0" and self.state(job) == "PENDING")
        self.run("scontrol", "update", f"jobid={job}", "starttime=now+3")

    def stop_controller(self) -> None:
        pid = (self.folder / "slurmctld.pid").read_text().strip()
        self.run("kill", pid)
        self.wait_until(lambda: "No such process" in self.run("kill", "-0", pid, check=False))

    def tidy(self) -> None:
        """Take all jobs away, and give all nodes back."""
        self.run("scancel", "--user=root")
        self.wait_for_jobs()
        self.run("scontrol", "update", f"nodename={','.join(NODES)}", "state=resume", check=False)


def of_slurm(name: str) -> bool:
    return name.startswith(("SLURM", "SBATCH_", "SQUEUE_", "SRUN_", "SCONTROL_", "SINFO_"))
