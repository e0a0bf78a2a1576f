"""Measure how much faster posattn-prepare is with two workers than with one, without its start.

    python recipes/benchmark/prepare_workers.py raw/train --source en --target de \
        --model-dir stanza_resources --json workers.json

The first 10,000 and 20,000 pairs of the corpus are prepared, with one worker and with two. The time
of a step is what 20,000 took longer than 10,000, so that no start of a program or of a worker is in
it. `--shard-lines` is small enough to cut both. What the command does itself, such as learning the
pieces, is not in the sum.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from setting import report

from fairseq_posattn.errors import InputError
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import read_lines
from fairseq_posattn.preparation.estimate import BY_LINES


def prepare(folder: Path, workers: int, args: Namespace) -> dict[str, float]:
    """Prepare a corpus, and return the seconds of each kind of step."""
    command = [sys.executable, "-m", "fairseq_posattn.cli.prepare", "--train", folder / "train"]
    command += ["--source", args.source, "--target", args.target, "--out", folder / "data"]
    command += ["--model-dir", args.model_dir, "--symbols", 4000, "--workers", workers]
    command += ["--shard-lines", args.pairs // 50]
    taken: dict[str, float] = {}
    began, step = time.perf_counter(), ""
    words, quiet = [str(word) for word in command], subprocess.DEVNULL
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=quiet, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.endswith(" ...\n") or line.startswith(f"{folder / 'data'}: "):
                now = time.perf_counter()
                taken[step] = taken.get(step, 0.0) + now - began  # the start has no name
                began, step = now, line.split()[0].split(".")[0]
    if process.returncode:
        raise InputError("posattn-prepare failed; run it by itself to see why")
    shutil.rmtree(folder / "data")
    shutil.rmtree(folder / "data.work")
    return taken


def row(name: str, seconds: dict[int, dict[str, float]], kinds: Sequence[str]) -> dict:
    """Return what some kinds of steps took, by the number of workers."""
    one, two = (sum(seconds[n].get(kind, 0.0) for kind in kinds) for n in (1, 2))
    return {"step": name, "seconds_1": one, "seconds_2": two, "ratio": one / two}


def main() -> None:
    """Prepare both samples with one and with two workers, and print the times."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", help="take the pairs CORPUS.SOURCE and CORPUS.TARGET")
    parser.add_argument("--source", required=True, help="this is the source language")
    parser.add_argument("--target", required=True, help="this is the target language")
    parser.add_argument("--model-dir", required=True, help="stanza's models are in this folder")
    parser.add_argument(
        "--pairs", type=int, default=10_000, help="prepare so many pairs, and twice"
    )
    parser.add_argument("--json", help="write the rows to this file, too")
    args = parser.parse_args()
    seconds: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for workers in (1, 2):
            found = []
            for times in (1, 2):
                folder = Path(name) / str(times)
                folder.mkdir(exist_ok=True)
                for language in (args.source, args.target):
                    lines = islice(read_lines(f"{args.corpus}.{language}"), times * args.pairs)
                    text = "".join(f"{line}\n" for line in lines)
                    (folder / f"train.{language}").write_text(text, encoding="utf-8")
                found.append(prepare(folder, workers, args))
                print(f"{workers} workers, {times * args.pairs:,} pairs: done", flush=True)
            few, many = found
            seconds[workers] = {kind: many[kind] - few[kind] for kind in many}
    rows = [
        row("parse", seconds, ["parse"]),
        row("the other steps that workers share", seconds, BY_LINES),
        row("all of these", seconds, ["parse", *BY_LINES]),
    ]
    columns = {
        "step": lambda r: r["step"],
        "1 worker, s": lambda r: f"{r['seconds_1']:.1f}",
        "2 workers, s": lambda r: f"{r['seconds_2']:.1f}",
        "ratio": lambda r: f"{r['ratio']:.2f}",
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
