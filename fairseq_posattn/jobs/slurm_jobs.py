"""Store the IDs of a step's Slurm jobs, and query their state and failures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import read_json
from fairseq_posattn.files.records import as_record, at_least
from fairseq_posattn.jobs.lines import LineWork

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
        """Cancel the joining job, if there is one."""
        if self.last.join and shutil.which("scancel"):
            subprocess.run(["scancel", "--quiet", self.last.join], capture_output=True, check=False)

    def failures(self, work: LineWork) -> list[str]:
        """Return a summary of the failed tasks, and the log line of up to SHOWN_FAILURES tasks."""
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
