"""Submit a Slurm job array for the shards and a job that joins their outputs, and query them."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.files import read_json
from fairseq_posattn.files.records import as_record, at_least
from fairseq_posattn.files.terminal import say
from fairseq_posattn.jobs.cluster import PARSER_THREADS, Cluster
from fairseq_posattn.jobs.descendants import MARK
from fairseq_posattn.jobs.lines import TASK, LineWork, do_shard, join_once

FILE = "jobs.json"
LOGS = "slurm_logs"
SHOWN_FAILURES = 10
LONGEST_LINE = 150
UNKNOWN_JOB = "Invalid job id specified"
CANCELLED = re.compile(r"slurmstepd.* error: ")  # followed by the reason: time, memory or node
# srun prints this after the reason.
LAST_WORDS = re.compile(r"srun: (launch/slurm|Terminating|Force Terminated|error: .*Exited with)")
LABEL = re.compile(r"^\d+: ")  # srun prefixes each line with the number of the process


@dataclass(frozen=True)
class Submitted:
    """The IDs of a job array and of the joining job, and the shards that the array processes."""

    array: str | None = None
    join: str | None = None
    shards: list[int] = field(default_factory=list)
    shards_per_task: int = field(default=1, metadata=at_least(1))


@dataclass(frozen=True)
class Jobs:
    """The jobs that were submitted last, if any, and the folder that contains their files."""

    folder: Path
    last: Submitted

    @staticmethod
    def of(folder: Path) -> Jobs:
        path = folder / FILE
        if not path.exists():
            return Jobs(folder, Submitted())
        remedy = "remove it if squeue shows no job of this parse"
        return Jobs(folder, as_record(Submitted, read_json(path, remedy), str(path), remedy))

    def save(self) -> None:
        with written_whole(self.folder / FILE) as file:
            json.dump(asdict(self.last), file)

    @property
    def logs(self) -> Path:
        return self.folder / LOGS

    def queued(self) -> list[str]:
        return [job for job in (self.last.array, self.last.join) if job and self.is_queued(job)]

    def is_queued(self, job: str) -> bool:
        """Return whether a job is queued or running; raise an InputError if squeue fails."""
        command = ["squeue", "--noheader", "--jobs", job]
        # filters of the user, such as SQUEUE_STATES, would hide jobs
        env = {k: v for k, v in os.environ.items() if not k.startswith("SQUEUE_")}
        try:
            found = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        except FileNotFoundError:
            said = "squeue was not found"
        else:
            if found.returncode == 0:
                return bool(found.stdout.strip())
            if UNKNOWN_JOB in found.stderr:
                return False
            said = f"squeue: {(found.stderr.strip().splitlines() or ['no message'])[-1]}"
        raise InputError(
            f"cannot determine whether Slurm job {job} of an earlier run has ended ({said[:80]}); "
            f"try again when squeue works, or remove {self.folder / FILE} if the job has ended"
        )

    def refuse_if_queued(self, state: str) -> None:
        """Raise an InputError if jobs are queued or running.

        Otherwise, shards could be processed twice.
        """
        if queued := " ".join(self.queued()):
            raise InputError(
                f"Slurm jobs {queued} of an earlier run are still queued or running ({state}); "
                f"wait until they end, or cancel them with scancel {queued}"
            )

    def cancel_join(self) -> None:
        """Cancel the job that merges the results, if there is one."""
        if self.last.join and shutil.which("scancel"):
            subprocess.run(["scancel", "--quiet", self.last.join], capture_output=True, check=False)

    def failures(self, work: LineWork) -> list[str]:
        """Return a summary, and the `last_line` of up to SHOWN_FAILURES failed tasks."""
        pending, shards, size = set(work.pending()), self.last.shards, self.last.shards_per_task
        tasks = [shards[k : k + size] for k in range(0, len(shards), size)]
        failed = [k for k, of_task in enumerate(tasks) if pending.intersection(of_task)]
        if not failed:
            return []
        others = len(failed) - SHOWN_FAILURES
        return [
            f"{len(failed)} of {len(tasks)} tasks of Slurm job {self.last.array} failed; "
            f"the last lines of their logs in {self.logs}:",
            *(self.last_line(k) for k in failed[:SHOWN_FAILURES]),
            *([f"{others} more tasks failed"] if others > 0 else []),
        ]

    def last_line(self, task: int) -> str:
        """Return the line in a task's log that most likely explains why the task ended."""
        log = self.logs / f"{self.last.array}_{task}.out"
        if not log.exists():
            return f"{log.name}: the file is missing, because the task did not start"
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        cancelled = [line for line in lines if CANCELLED.search(line)]
        telling = [line for line in lines if not LAST_WORDS.match(line)]
        last = (cancelled or telling or lines or ["empty"])[-1]
        return f"{log.name}: {LABEL.sub('', last)[:LONGEST_LINE]}"


def job_id(said: str) -> str:
    """Return the job ID in the output of sbatch, which may also contain the name of a cluster."""
    found = re.search(r"Submitted batch job (\d+)", said)
    if found is None:
        raise InputError(
            f"sbatch printed no job ID but '{said.strip()[:150]}'; look for the job with squeue"
        )
    return found[1]


# Slurm's default limit. With more shards, each task processes several, because the joining job
# depends on a single array.
LONGEST_ARRAY = 1000
MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# Variables that describe a job: all of Slurm's, except those that users set.
OF_A_JOB = re.compile("(?!SLURM_(CONF|CLUSTERS|JWT|TIME_FORMAT)$)(SLURM|SLURMD|SRUN)_")
# srun does not inherit the number of CPUs from the job, so the script exports it. Preemption with a
# grace time sends SIGTERM first, which makes the job fail, so the script requeues it. The script
# does not use SLURM_JOB_ID, because in the last task this is the ID of the whole array.
ONE_FOR_EACH_CPU = ("OMP_NUM_THREADS", "SRUN_CPUS_PER_TASK", PARSER_THREADS)
SCRIPT = f"""\
#!/bin/bash
%(options)s
%(setup)s
set -xe
export PYTHONUNBUFFERED=TRUE
export {" ".join(f"{name}=${{SLURM_CPUS_PER_TASK:-1}}" for name in ONE_FOR_EACH_CPU)}
srun -l -n 1 python -m {__name__} %(arguments)s || {{ {{ code=$?; set +x; }} 2>/dev/null
    task="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
    ! scontrol show job "$task" | grep -q PreemptTime=2 || scontrol requeue "$task"
    exit $code; }}
"""


def submit(work: LineWork, cluster: Cluster) -> None:
    """Submit a job array that processes the unfinished shards.

    If the step has a record, also submit a job that joins the outputs.
    """
    if not shutil.which("sbatch"):
        raise InputError("sbatch was not found; run this command on a machine of a Slurm cluster")
    logs, pending = work.logs, work.pending()
    each = math.ceil(len(pending) / LONGEST_ARRAY)
    (logs / LOGS).mkdir(parents=True, exist_ok=True)
    with replaced_whole(logs / TASK) as partial:
        Path(partial).write_bytes(pickle.dumps((work, pending, each)))
    array = f"0-{math.ceil(len(pending) / each) - 1}"
    own: dict[str, Any] = {"array": f"{array}%{cluster.workers}" if cluster.workers else array}
    own |= {"gpus": cluster.gpus} if cluster.gpus else {}
    job = sbatch(work, cluster, work.step.name, "do", own | dict(cluster.sbatch))
    Jobs(logs, Submitted(job, None, pending, each)).save()
    if work.step.record:
        own = {"kill-on-invalid-dep": "yes", "array": "0-0", **dict(cluster.for_plain_work.sbatch)}
        last = sbatch(work, cluster, f"{work.step.name}-join", "join", own, job)
        Jobs(logs, Submitted(job, last, pending, each)).save()


def sbatch(
    work: LineWork, cluster: Cluster, name: str, what: str, own: dict[str, Any], array: str = ""
) -> str:
    """Write the script of a job, submit it, and return its ID.

    array: the ID of a job array that must succeed before this job starts, or "".
    """
    logs, log = work.logs, work.logs / LOGS / "%A_%a.out"
    options = {"job-name": name, "time": cluster.time, "output": log, "error": log}
    options |= {"nodes": 1, "cpus-per-task": 1, "requeue": ""}
    options |= {"partition": cluster.partition} if cluster.partition else {}
    options |= {} if own.keys() & {*MEMORY} else {"mem": f"{cluster.memory_gb}G"}
    given = [
        (key, value and f"={shlex.quote(str(value))}") for key, value in (options | own).items()
    ]
    python = shlex.quote(str(Path(sys.executable).parent))
    filled = {
        "options": "\n".join(f"#SBATCH --{key}{value}" for key, value in given),
        "setup": cluster.setup or f"export PATH={python}:$PATH",
        "arguments": shlex.join([what, str(logs / TASK)]),
    }
    script = logs / f"{name}.slurm"
    with written_whole(script) as file:
        file.write(SCRIPT % filled)
    # The new job must neither inherit memory, nodes and array of a surrounding job, nor be killed
    # together with this process.
    ours = {k: v for k, v in os.environ.items() if k != MARK and not OF_A_JOB.match(k)}
    after = [f"--dependency=afterok:{array}"] if array else []
    command = ["sbatch", "--export=ALL", *after, str(script)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=ours, check=False)
    if done.returncode:
        queued = f"; job {array}, which processes the shards, continues" if array else ""
        raise InputError(
            f"sbatch failed to submit {script} (exit code {done.returncode}); see its message "
            f"above{queued}"
        )
    return job_id(done.stdout)


def main(what: str, path: str) -> None:
    """Process the shards of this array task, or join the outputs of all shards.

    The Slurm job calls this function.
    """
    with open(path, "rb") as file:
        work, shards, each = pickle.load(file)
    say(f"{work.step.name}: {what}")
    if what == "join":
        return join_once(work)
    first = each * int(os.environ["SLURM_ARRAY_TASK_ID"])
    for k in shards[first : first + each]:
        do_shard(work, k)


if __name__ == "__main__":
    main(*sys.argv[1:])
