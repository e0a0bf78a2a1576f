"""Submit a Slurm job array that processes the shards, and a job that joins their outputs."""

from __future__ import annotations

import math
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import InputError
from fairseq_posattn.files.atomic import replaced_whole, written_whole
from fairseq_posattn.files.progress import say
from fairseq_posattn.jobs.cluster import PARSER_THREADS, Cluster
from fairseq_posattn.jobs.descendants import MARK
from fairseq_posattn.jobs.lines import TASK, LineWork, do_shard, join_once
from fairseq_posattn.jobs.slurm_jobs import LOGS, Jobs, Submitted, job_id

# Slurm's default limit. More shards are not split into several arrays, because the joining job
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
            f"sbatch refused {script} with exit code {done.returncode}; see its message "
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
