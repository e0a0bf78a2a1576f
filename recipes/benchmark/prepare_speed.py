"""Measure speed and memory of projection and binarisation against the size of the corpus.

    python recipes/benchmark/prepare_speed.py --sentences 10000 100000 1000000 --json prepare.json

Synthetic sentences (Zipf's law, mean 25 words, random trees) go through the real steps,
posattn-project and posattn-binarize, each as a program of its own on one core. The target side has
the same text, so that binarisation has as much to do as for a parallel corpus.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import write_json

ROOT = Path(__file__).resolve().parent.parent.parent
MEAN_WORDS = 25
TYPES = 30000


def main() -> None:
    """Measure the steps for each size of the corpus."""
    args = parse_options()
    rows = []
    for sentences in args.sentences:
        with tempfile.TemporaryDirectory() as folder:
            make_corpus(Path(folder), sentences, args.sentencepiece)
            rows.append(measure(Path(folder), sentences, args.sentencepiece))
            print_row(rows[-1], first=len(rows) == 1)
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
        default=[10000, 100000],
        help="measure corpora of these sizes",
    )
    parser.add_argument(
        "--sentencepiece", action="store_true", help="use sentencepiece instead of subword-nmt"
    )
    parser.add_argument("--json", help="write the rows to this file, too")
    return parser.parse_args()


def make_corpus(folder: Path, sentences: int, sentencepiece: bool) -> None:
    """Write t.words, t.parents, t.src (pieces) and t.tgt, and with sentencepiece its model."""
    rng = np.random.default_rng(1)
    words = spelled_types(random.Random(1))
    model = learn(folder, words) if sentencepiece else None
    with (
        open(folder / "t.words", "w") as text,
        open(folder / "t.parents", "w") as parents,
        open(folder / "t.src", "w") as source,
        open(folder / "t.tgt", "w") as target,
    ):
        for _ in range(sentences):
            length = max(1, int(rng.poisson(MEAN_WORDS)))
            sentence = [words[min(k, TYPES) - 1] for k in rng.zipf(1.3, length)]
            text.write(" ".join(sentence) + "\n")
            tree = ["0", *(str(rng.integers(1, k + 1)) for k in range(1, length))]
            parents.write(" ".join(tree) + "\n")
            pieces = model(" ".join(sentence)) if model else split(sentence)
            source.write(" ".join(pieces) + "\n")
            target.write(" ".join(pieces) + "\n")


def spelled_types(rng: random.Random) -> list[str]:
    """Return the spelling of each word; rare words are longer."""
    letters = "etaoinshrdlcumwfgypbvk"
    return ["".join(rng.choices(letters, k=2 + min(8, k.bit_length() // 2))) for k in range(TYPES)]


def split(sentence: list[str]) -> list[str]:
    """Return the pieces of a sentence, in which the longest words have two pieces."""
    pieces = []
    for word in sentence:
        pieces += [word[:5] + "@@", word[5:]] if len(word) > 8 else [word]
    return pieces


def learn(folder: Path, words: list[str]):
    """Learn a model of sentencepiece, and return its segmenter."""
    from fairseq_posattn.preparation.segment import learn_sentencepiece
    from fairseq_posattn.text.segmenters import SentencePiece

    listed = folder / "types"
    listed.write_text("\n".join(" ".join(words[k : k + 20]) for k in range(0, 10000, 20)))
    learn_sentencepiece([str(listed)], str(folder / "model"), 8000)
    return SentencePiece(str(folder / "model")).segment


def measure(folder: Path, sentences: int, sentencepiece: bool) -> dict:
    """Return seconds and peak memory of each step."""
    start = folder / "t"
    extra = ["--sentencepiece", folder / "model", "--text", f"{start}.words"]
    files = ["--words", f"{start}.words", "--parents", f"{start}.parents"]
    project = step("project", *files, "--pieces", f"{start}.src", *(extra if sentencepiece else []))
    names = ["--source-lang", "src", "--target-lang", "tgt", "--trainpref", start]
    binarize = step("binarize", *names, "--joined-dictionary", "--destdir", folder / "data")
    seconds = project[0] + binarize[0]
    return {
        "sentences": sentences,
        "project_seconds": project[0],
        "binarize_seconds": binarize[0],
        "sentences_per_minute": 60 * sentences / seconds,
        "project_memory_mb": project[1],
        "binarize_memory_mb": binarize[1],
    }


def step(name: str, *options) -> tuple[float, float]:
    """Return wall time and peak memory of a program that runs on one thread."""
    command = [sys.executable, ROOT / f"preprocess/{name}.py", *options]
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"preprocess/{name}.py failed; run it by itself to see why")
    return time.perf_counter() - began, usage.ru_maxrss * 1024 / 1e6


def print_row(row: dict, first: bool) -> None:
    """Print a row, after the names of the columns if it is the first."""
    if first:
        print("  ".join(row))
    print("  ".join(f"{value:>{len(name)}.0f}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    command_line.run(main)
