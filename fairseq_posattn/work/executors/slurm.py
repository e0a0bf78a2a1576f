"""Submit to Slurm a job array that does the shards, and a job that joins them after it."""

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
from fairseq_posattn.io.atomic import replaced_whole, written_whole
from fairseq_posattn.io.progress import say
from fairseq_posattn.work.cluster import PARSER_THREADS, Cluster
from fairseq_posattn.work.descendants import MARK
from fairseq_posattn.work.lines import TASK, LineWork, do_shard, join_once
from fairseq_posattn.work.slurm_jobs import LOGS, Jobs, Submitted, job_id

# This is Slurm's usual limit; with several arrays, the joining job would wait for one of them only.
LONGEST_ARRAY = 1000
MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
# The user sets some variables; all others that start like Slurm's own describe a job.
OF_A_JOB = re.compile("(?!SLURM_(CONF|CLUSTERS|JWT|TIME_FORMAT)$)(SLURM|SLURMD|SRUN)_")
# srun does not take the number of CPUs from the job, so it is told. Pre-emption with a grace time
# sends SIGTERM first, and a job that ends by it counts as failed, so it is queued again. The last
# task of an array has the number of the whole array as SLURM_JOB_ID.
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
    """Submit all shards that are not done, and the job that joins them, if it has one."""
    if not shutil.which("sbatch"):
        raise InputError("sbatch was not found; start this on a machine of a Slurm cluster")
    logs, pending = work.logs, work.pending()
    each = math.ceil(len(pending) / LONGEST_ARRAY)
    (logs / LOGS).mkdir(parents=True, exist_ok=True)
    with replaced_whole(logs / TASK) as partial:
        Path(partial).write_bytes(pickle.dumps((work.for_workers, pending, each)))
    array = f"0-{math.ceil(len(pending) / each) - 1}"
    own: dict[str, Any] = {"array": f"{array}%{cluster.workers}" if cluster.workers else array}
    own |= {"gpus": cluster.gpus} if cluster.gpus else {}
    job = sbatch(work, cluster, work.step.name, "do", own | cluster.sbatch)
    Jobs(logs, Submitted(job, None, pending, each)).save()
    if work.step.record:
        own = {"kill-on-invalid-dep": "yes", "array": "0-0", **cluster.for_plain_work.sbatch}
        last = sbatch(work, cluster, f"{work.step.name}-join", "join", own, job)
        Jobs(logs, Submitted(job, last, pending, each)).save()


def sbatch(
    work: LineWork, cluster: Cluster, name: str, what: str, own: dict[str, Any], array: str = ""
) -> str:
    """Write the script of a job, submit it after the job `array`, if there is one, and return its
    number."""
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
    # The new job must not inherit the memory, the nodes and the array of the one that this runs in,
    # and it does not end with this process.
    ours = {k: v for k, v in os.environ.items() if k != MARK and not OF_A_JOB.match(k)}
    after = [f"--dependency=afterok:{array}"] if array else []
    command = ["sbatch", "--export=ALL", *after, str(script)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=ours, check=False)
    if done.returncode:
        queued = f"; job {array}, which does the shards, goes on" if array else ""
        raise InputError(
            f"sbatch refused {script} with exit code {done.returncode}; its message above says "
            f"what to change{queued}"
        )
    return job_id(done.stdout)


def main(what: str, path: str) -> None:
    """Do the shards of this task of the array, or join all, in the job that Slurm has started."""
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
