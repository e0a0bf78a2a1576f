"""Submit to Slurm a job array that does the shards, and a job that joins them after it."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CalledProcessError, check_output

import datatrove.executor.slurm
from datatrove.executor import SlurmPipelineExecutor
from datatrove.utils.logging import logger

from fairseq_posattn.errors import InputError
from fairseq_posattn.shards.cluster import Cluster
from fairseq_posattn.shards.executors.steps import DoShard, Join
from fairseq_posattn.shards.slurm_jobs import LOGS, Jobs, Submitted
from fairseq_posattn.shards.work import Task
from fairseq_posattn.text.parser_settings import PARSER_THREADS

# This is Slurm's usual limit; with several arrays, the joining job would wait for one of them only.
LONGEST_ARRAY = 1000
# The user sets these variables; all others that start like Slurm's own describe a job.
USERS_VARIABLES = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_TIME_FORMAT")
# srun does not take the number of CPUs from the job, so it is told here.
CPUS = " ".join(
    f"{name}=${{SLURM_CPUS_PER_TASK:-1}}"
    for name in ("OMP_NUM_THREADS", "SRUN_CPUS_PER_TASK", PARSER_THREADS)
)
# Pre-emption with a grace time sends SIGTERM first, and a job that ends by it counts as failed. The
# last task of an array has the number of the whole array as SLURM_JOB_ID.
REQUEUE_IF_PREEMPTED = (
    "|| { { code=$?; set +x; } 2>/dev/null; "
    'task="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; '
    '! scontrol show job "$task" | grep -q PreemptTime=2 || '
    'scontrol requeue "$task"; exit $code; }'
)
MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
SUBMITTED_JOB = re.compile(r"Submitted batch job (\d+)")


class SlurmExecutor(SlurmPipelineExecutor):
    """This executor of datatrove submits no job for statistics, and can use the default partition.

    Memory is that of a whole worker, and paths may have spaces.
    """

    def get_sbatch_args(self, *args, **kwargs) -> dict:
        options = super().get_sbatch_args(*args, **kwargs)
        if not options["partition"]:
            del options["partition"]
        memory = options.pop("mem-per-cpu")
        if not any(name in self._sbatch_args for name in MEMORY):
            options["mem"] = memory
        options |= {name: self._sbatch_args[name] for name in MEMORY if name in self._sbatch_args}
        return {"kill-on-invalid-dep": "yes", **options}

    def get_launch_file_contents(self, sbatch_args: dict, run_script: str) -> str:
        path = str(self.logging_dir.resolve_paths("executor.pik"))
        script = f"{run_script.removesuffix(path)}{shlex.quote(path)}"
        quoted = {name: value and shlex.quote(str(value)) for name, value in sbatch_args.items()}
        script = f"export {CPUS}; {script} {REQUEUE_IF_PREEMPTED}"
        return super().get_launch_file_contents(quoted, script)

    def launch_merge_stats(self) -> None:
        pass


def submit(task: Task, cluster: Cluster) -> None:
    """Submit all shards that are not done, and the job that joins them, if the task has one."""
    if not shutil.which("sbatch"):
        raise InputError("sbatch was not found; start this on a machine of a Slurm cluster")
    work, pending = task.work, task.work.pending()
    options = {
        "time": cluster.time,
        "partition": cluster.partition,
        "mem_per_cpu_gb": cluster.memory_gb,
        "env_command": cluster.setup or activate_this_environment(),
        "qos": "",
        "requeue": True,
        **({"job_id_retriever": job_id} if ASKS_FOR_NUMBER else {}),
    }
    gpus = {"gpus": cluster.gpus} if cluster.gpus else {}
    array = SlurmExecutor(
        [DoShard(task)],
        tasks=len(work.shards),
        workers=cluster.workers or -1,
        job_name=task.name,
        tasks_per_job=math.ceil(len(pending) / LONGEST_ARRAY),
        logging_dir=str(work.logs),
        slurm_logs_folder=str(work.logs / LOGS),
        sbatch_args={**gpus, **cluster.sbatch},
        **options,
    )
    joining = SlurmExecutor(
        [Join(task)],
        tasks=1,
        job_name=f"{task.name}-join",
        depends=array,
        logging_dir=str(work.logs / f"join-{time.time_ns()}"),
        slurm_logs_folder=str(work.logs / LOGS),
        sbatch_args=cluster.for_plain_work.sbatch,
        **options,
    )
    try:
        with without_variables_of_a_job(), silent():
            for executor in (array, joining) if task.join else (array,):
                executor.launch_job()
                jobs = (array.job_id, joining.job_id, pending, array.tasks_per_job)
                Jobs(work.logs, Submitted(*jobs)).save()
    except CalledProcessError as error:
        refused = joining if array.job_id else array
        script = refused.logging_dir.resolve_paths("launch_script.slurm")
        queued = f"; job {array.job_id}, which does the shards, goes on" if array.job_id else ""
        raise InputError(
            f"sbatch refused {script} with exit code {error.returncode}; its message above says "
            f"what to change{queued}"
        ) from error


def job_id(said: str) -> str:
    """Return the number of the job from what sbatch says, even if a cluster's name follows it."""
    found = SUBMITTED_JOB.search(said)
    if found is None:
        raise InputError(
            f"sbatch named no job in '{said.strip()[:150]}'; look for the job with squeue"
        )
    return found[1]


def launch(script: str, *arguments: str) -> str:
    """Submit a job and return its number, for which datatrove would take any last word."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(script)
        file.flush()
        return job_id(check_output(["sbatch", *arguments, file.name], text=True))


# datatrove 0.3, the last release for numpy 1, does not ask.
ASKS_FOR_NUMBER = "job_id_retriever" in inspect.signature(SlurmPipelineExecutor).parameters
if not ASKS_FOR_NUMBER:
    datatrove.executor.slurm.launch_slurm_job = launch


@contextlib.contextmanager
def without_variables_of_a_job() -> Iterator[None]:
    """Hide the job that this program runs in, if any, from the jobs that it submits.

    They would inherit its memory, its nodes and its place in an array.
    """
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if is_of_a_job(name)}
    try:
        yield
    finally:
        os.environ.update(hidden)


def is_of_a_job(name: str) -> bool:
    """Return whether an environment variable describes a job of Slurm."""
    return name.startswith(("SLURM_", "SLURMD_", "SRUN_")) and name not in USERS_VARIABLES


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep the messages of datatrove about each step of a submission from the terminal."""
    logger.disable("datatrove")
    try:
        yield
    finally:
        logger.enable("datatrove")


def activate_this_environment() -> str:
    """Return the shell command that activates the environment of this program."""
    script = Path(sys.prefix) / "bin" / "activate"
    return (
        f"source {shlex.quote(str(script))}"
        if script.exists()
        else f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
    )
