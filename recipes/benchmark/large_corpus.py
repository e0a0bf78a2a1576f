"""Measure memory and start of a training against the size of the corpus, in shards or not.

    python recipes/benchmark/large_corpus.py --sentences 10000 2000000 --shards 8 --json large.json

Synthetic sentences with trees (10,000 of them, repeated) are written in fairseq's format, and
fairseq-train trains the tiny model with full trees for a few updates in a process of its own. The
start lasts from the start of that process to its first update. The memory is the largest resident
set, mapped files included. fairseq gets data in shards as DATA0:DATA1:...
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from setting import PLUGIN, random_tree

from fairseq_posattn.glue.data.tree_files import write_tree_file
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import write_json

DIFFERENT = 10_000
FIRST_UPDATE = re.compile(r"train_inner .*num_updates=1,")
# Linux counts the memory of the parent in the peak of a new process, so the parent must be small.
MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, flush=True)
sys.exit(status)
"""


def main() -> None:
    """Measure a training for each size of the corpus."""
    args = parse_options()
    rows = []
    for sentences in args.sentences:
        for shards in sorted({1, args.shards if sentences >= 100 * args.shards else 1}):
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                folders = write_corpus(Path(folder), sentences, shards, args.length)
                rows.append({"sentences": sentences, "shards": shards, **train(folders, args)})
                print(rows[-1], flush=True)
    if args.json:
        write_json(args.json, rows, indent=1)


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sentences",
        type=int,
        nargs="+",
        default=[10_000, 2_000_000],
        help="measure corpora of these sizes",
    )
    parser.add_argument(
        "--shards", type=int, default=8, help="divide the large corpora into so many shards"
    )
    parser.add_argument(
        "--length", type=int, default=25, help="set the mean number of pieces of a sentence"
    )
    parser.add_argument("--updates", type=int, default=20, help="train for so many updates")
    parser.add_argument(
        "--folder", help="write the corpora below this folder (default: the system's temporary one)"
    )
    parser.add_argument("--json", help="write the rows to this file, too")
    return parser.parse_args()


def write_corpus(folder: Path, sentences: int, shards: int, length: int) -> list[Path]:
    """Write a corpus in shards, and return their folders."""
    folders = [folder / f"shard{k}" for k in range(shards)]
    dictionary = Dictionary()
    for k in range(1000):
        dictionary.add_symbol(f"p{k}")
    for k, shard in enumerate(folders):
        shard.mkdir()
        for language in ("src", "tgt"):
            dictionary.save(str(shard / f"dict.{language}.txt"))
        write_split(shard / "train", sentences // shards, length, seed=k)
        write_split(shard / "valid", 100, length, seed=k)
    return folders


def write_split(prefix: Path, sentences: int, length: int, seed: int) -> None:
    """Write the texts and trees of a split."""
    rng = np.random.default_rng(seed)
    different = min(sentences, DIFFERENT)
    lengths = np.clip(rng.normal(length, length / 3, different), 4, 3 * length).astype(int)
    for language in ("src", "tgt"):
        texts = [rng.integers(4, 1000, count + 1) for count in lengths]
        for text in texts:
            text[-1] = Dictionary().eos_index
        write_texts(f"{prefix}.src-tgt.{language}", repeated(texts, sentences))
    trees = [random_tree(int(count), rng) for count in lengths]
    write_tree_file(f"{prefix}.src-tgt.src", repeated(trees, sentences))


def repeated(items: list, count: int) -> Iterator:
    """Yield so many items, repeating them in turn."""
    return (items[k % len(items)] for k in range(count))


def write_texts(prefix: str, texts: Iterator[np.ndarray]) -> None:
    """Write sentences in fairseq's binary format."""
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", np.uint16)
    for text in texts:
        builder.add_item(torch.from_numpy(text))
    builder.finalize(f"{prefix}.idx")


def train(folders: list[Path], args: argparse.Namespace) -> dict:
    """Return the seconds to the first update and in all, and the peak of memory."""
    command = [
        *(sys.executable, "-c", MEASURED),
        *(sys.executable, "-m", "fairseq_cli.train", ":".join(map(str, folders))),
        *("--user-dir", PLUGIN, "--task", "structured_translation", "-s", "src", "-t", "tgt"),
        *("--arch", "posattn_structural_tiny", "--optimizer", "adam", "--lr", "1e-4"),
        *("--max-tokens", "1000", "--max-update", str(args.updates), "--log-interval", "1"),
        *("--log-format", "simple", "--no-save", "--disable-validation"),
        *([] if torch.cuda.is_available() else ["--cpu"]),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    first, lines = None, []
    for line in process.stdout:
        lines.append(line)
        if first is None and FIRST_UPDATE.search(line):
            first = time.perf_counter() - began
    if process.wait() or first is None:
        raise SystemExit("".join(lines[-30:]))
    return {
        "seconds_to_first_update": round(first, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_memory_mb": round(int(lines[-1].split()[-1]) * 1024 / 1e6),
    }


if __name__ == "__main__":
    command_line.run(main)
