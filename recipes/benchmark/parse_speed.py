"""Compare the speed of posattn-parse with that of a bare stanza pipeline on the same sentences.

    python recipes/benchmark/parse_speed.py TEXT --model-dir DIR --rounds 5 --json speed.json

Each round runs in turn a program of a few lines that reads TEXT and calls stanza.Pipeline on 1,000
lines at a time (and writes nothing), posattn-parse with one worker, and posattn-parse with two.
Whole programs are timed, from start to end, with one thread for each worker. Then the start, which
is the time of a run on one line in the same round, is subtracted. Ratios are taken within a round;
the table has their median and range.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import write_json

ROOT = Path(__file__).resolve().parent.parent.parent
BARE = """
import sys
import stanza, torch
torch.set_num_threads(1)
text, lang, folder, tokenized = sys.argv[1:]
how = {"tokenize_pretokenized": True} if tokenized == "yes" else {"tokenize_no_ssplit": True}
pipeline = stanza.Pipeline(
    lang, dir=folder, processors="tokenize,pos,lemma,depparse", download_method=None,
    use_gpu=torch.cuda.is_available(), logging_level="ERROR",
    pos_batch_size=100, depparse_batch_size=3000, **how
)
lines = open(text, encoding="utf-8").read().splitlines()
for k in range(0, len(lines), 1000):
    part = [line for line in lines[k : k + 1000] if line.strip()]
    if tokenized == "yes":
        pipeline([line.split() for line in part])
    else:
        pipeline.process([stanza.Document([], text=line) for line in part])
"""


def main() -> None:
    """Time the programs in turn and print the ratios."""
    args = parse_options()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = folder / "one.txt"
        one.write_text(Path(args.text).read_text(encoding="utf-8").split("\n")[0] + "\n")
        kinds = {"bare": bare, "posattn-parse": one_worker, "posattn-parse, 2 workers": two_workers}
        bare(args, one, folder)  # this run warms the disk's cache up
        rounds = []
        for _ in range(args.rounds):
            starts = {kind: run(args, one, folder) for kind, run in kinds.items()}
            taken = {kind: run(args, Path(args.text), folder) for kind, run in kinds.items()}
            rounds.append({kind: (taken[kind], taken[kind] - starts[kind]) for kind in kinds})
            print(rounds[-1], file=sys.stderr, flush=True)
    sentences = len(Path(args.text).read_text(encoding="utf-8").splitlines())
    rows = [
        row("posattn-parse to bare", "bare", "posattn-parse", rounds, sentences),
        row("2 workers to 1", "posattn-parse", "posattn-parse, 2 workers", rounds, sentences),
    ]
    print(f"{sentences} sentences")
    for line in rows:
        print(line)
    if args.json:
        write_json(args.json, rows, indent=1)


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", help="parse this text, which has one sentence a line")
    parser.add_argument("--model-dir", required=True, help="read stanza's models from this folder")
    parser.add_argument("--lang", default="en", help="parse this language (default: %(default)s)")
    parser.add_argument(
        "--tokenized", action="store_true", help="take words between spaces, as posattn-parse does"
    )
    parser.add_argument("--rounds", type=int, default=5, help="measure so many rounds")
    parser.add_argument("--json", help="write the rows to this file, too")
    return parser.parse_args()


def row(name: str, base: str, kind: str, rounds: list[dict], sentences: int) -> dict:
    """Return the ratios of throughput, of whole runs and without their start."""
    whole = sorted(taken[base][0] / taken[kind][0] for taken in rounds)
    net = sorted(taken[base][1] / taken[kind][1] for taken in rounds)
    seconds = statistics.median(taken[kind][1] for taken in rounds)
    return {
        "ratio": name,
        "whole_run": statistics.median(whole),
        "whole_run_range": (whole[0], whole[-1]),
        "without_start": statistics.median(net),
        "without_start_range": (net[0], net[-1]),
        "sentences_per_second": sentences / seconds,
    }


def bare(args, text: Path, folder: Path) -> float:
    """Return how long a bare pipeline takes."""
    tokenized = "yes" if args.tokenized else "no"
    return timed([sys.executable, "-c", BARE, text, args.lang, args.model_dir, tokenized])


def one_worker(args, text: Path, folder: Path, workers: int = 1) -> float:
    """Return how long posattn-parse takes with one worker, or with more."""
    out = folder / "out.conllu.xz"
    out.unlink(missing_ok=True)
    options = ["--model-dir", args.model_dir, "--lang", args.lang, "--workers", workers]
    tokenized = ["--tokenized"] if args.tokenized else []
    script = ROOT / "preprocess/parse.py"
    shards = ["--shard-lines", 500]
    return timed([sys.executable, script, text, "--out", out, *options, *tokenized, *shards])


def two_workers(args, text: Path, folder: Path) -> float:
    """Return how long posattn-parse takes with two workers."""
    return one_worker(args, text, folder, workers=2)


def timed(command: list) -> float:
    """Return how long a program takes."""
    began = time.perf_counter()
    subprocess.run(
        [str(part) for part in command],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    command_line.run(main)
