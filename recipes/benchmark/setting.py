"""Common functions of the benchmarks: synthetic corpora, models, timing, and tables."""

from __future__ import annotations

import logging
import platform
import random
import statistics
import time
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import fairseq_posattn
from fairseq_posattn.core.attention import MECHANISMS, AttentionSpecification
from fairseq_posattn.fairseq_plugin.label_dictionaries import LabelDictionaries
from fairseq_posattn.fairseq_plugin.models.preset_files import read_group
from fairseq_posattn.fairseq_plugin.tree_data import write_tree_file
from fairseq_posattn.files.files import write_json
from fairseq_posattn.scoring.statistics import median_interval
from fairseq_posattn.trees.sentence import Labels, Tree

PLUGIN = str(Path(fairseq_posattn.__file__).parent)
STOCK = "stock"
RELATIONS = [f"relation{k}" for k in range(37)]  # as many as in Universal Dependencies
TAGS = [f"tag{k}" for k in range(17)]
SIZES = {  # width, width of the feed-forward layer, heads, layers
    "base": (512, 2048, 8, 6),
    "big": (1024, 4096, 16, 6),
    "small": (512, 1024, 4, 6),
    "toy": (64, 128, 4, 2),
}


@dataclass(frozen=True)
class Model:
    """Positions, encoder attention and cross-attention of a model."""

    positions: str
    attention: str
    cross: str = ""

    @classmethod
    def parse(cls, text: str) -> Model | None:
        """Parse 'ATTENTION', 'POSITIONS / ATTENTION' or 'POSITIONS / ATTENTION / CROSS-ATTENTION'.

        Each part may be empty. Presets, such as 'structural', are also accepted, unless a mechanism
        has the same name. Return None for 'stock'.
        """
        if text == STOCK:
            return None
        if text not in MECHANISMS and (preset := read_group("model").get(text)):
            return cls(preset["encoder_positions"], preset["encoder_attention"])
        parts = [part.strip() for part in text.split("/")]
        positions, *others = ["sequence", *parts] if len(parts) == 1 else parts
        return cls(positions or "sequence", *others)

    def options(self) -> list[str]:
        """Return the options of fairseq-train for this model."""
        learns = AttentionSpecification(self.attention).learns_from_trees
        criterion = ["--criterion", "tree_supervised_cross_entropy"] if learns else []
        encoder = ["--encoder-positions", self.positions, "--encoder-attention", self.attention]
        return [*encoder, "--cross-attention", self.cross, *criterion]


def make_corpus(folder: Path, sentences: int, vocabulary: int, length: int, seed: int = 1) -> None:
    """Write binarised random sentences with random trees; 2/3 of the pieces start a word."""
    folder.mkdir(parents=True, exist_ok=True)
    dictionary = Dictionary()
    for k in range(vocabulary - len(dictionary)):
        dictionary.add_symbol(f"p{k}")
    for language in ("src", "tgt"):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.normal(length, length / 4, sentences), 4, 2 * length).astype(int)
    for language in ("src", "tgt"):
        write_pieces(folder / f"train.src-tgt.{language}", lengths, vocabulary, rng)
    labels = LabelDictionaries.of([Labels(RELATIONS, TAGS)], subtypes=False)
    labels.save(folder, "src")
    trees = (labelled(*random_tree(count, rng), rng) for count in lengths)
    write_tree_file(str(folder / "train.src-tgt.src"), trees, labels)


def labelled(parents: list[int], counts: list[int], rng) -> Tree:
    relations = [RELATIONS[k] for k in rng.integers(0, len(RELATIONS), len(parents))]
    tags = [TAGS[k] for k in rng.integers(0, len(TAGS), len(parents))]
    return Tree(parents, counts, Labels(relations, tags))


def write_pieces(prefix: Path, lengths: np.ndarray, vocabulary: int, rng) -> None:
    """Write random sentences in fairseq's binary format."""
    end = Dictionary().eos()
    builder = MMapIndexedDatasetBuilder(f"{prefix}.bin", np.uint16)
    for count in lengths:
        pieces = rng.integers(end + 2, vocabulary, count + 1)
        pieces[-1] = end
        builder.add_item(torch.from_numpy(pieces))
    builder.finalize(f"{prefix}.idx")


def random_tree(pieces: int, rng) -> tuple[list[int], list[int]]:
    """Return the parent and the number of pieces of each word of a random tree.

    Words are added in random order; each is attached to the nearest word added before.
    """
    begins = rng.random(pieces) < 2 / 3
    begins[0] = True
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, pieces))
    order = rng.permutation(len(counts))
    parents = np.zeros(len(counts), int)
    for k, word in enumerate(order[1:], 1):
        placed = order[:k]
        parents[word] = placed[np.argmin(np.abs(placed - word))] + 1
    return parents.tolist(), counts.tolist()


def training_options(data: Path, model: Model | None, size: str) -> list[str]:
    """Return the options of fairseq-train for a model."""
    width, inner, heads, layers = SIZES[size]
    arch = "transformer" if model is None else "posattn_transformer"
    arguments = [str(data), "--task", "structured_translation", "-s", "src", "-t", "tgt"]
    arguments += ["--user-dir", PLUGIN, "--arch", arch, "--share-all-embeddings"]
    arguments += ["--save-dir", str(data)]  # fairseq saves a checkpoint there if a step fails
    for side in ("encoder", "decoder"):
        arguments += [f"--{side}-embed-dim", str(width), f"--{side}-ffn-embed-dim", str(inner)]
        arguments += [f"--{side}-attention-heads", str(heads), f"--{side}-layers", str(layers)]
    arguments += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
    arguments += ["--optimizer", "adam", "--lr", "1e-4", "--clip-norm", "1.0", "--dropout", "0.1"]
    arguments += model.options() if model else []
    return [*arguments, *([] if torch.cuda.is_available() else ["--cpu"])]


def configure(data: Path, model: Model | None, size: str, *extra: str) -> Namespace:
    """Return the configuration that fairseq-train would create for a model."""
    arguments = [*training_options(data, model, size), *extra]
    parser = options.get_training_parser()
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, arguments))


def set_up(cfg):
    """Build the task with its training data, the model and the criterion.

    The criterion must be built before the data are loaded, because it may require trees.
    """
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    criterion = task.build_criterion(cfg.criterion)
    task.load_dataset("train", combine=True)
    return task, model, criterion


def in_turns(candidates: dict[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """Measure each candidate once per round, in random order; return all times in seconds.

    A candidate is called with the number of the round, and returns its time. After each round, the
    time of the first candidate is printed to show the progress.
    """
    rng, first = random.Random(1), next(iter(candidates))
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    for k in range(rounds):
        for name in rng.sample(list(candidates), len(candidates)):
            taken[name].append(candidates[name](k))
        print(f"round {k + 1}/{rounds}: {first} {taken[first][-1]:.2f} s", flush=True)
    return taken


def seconds(step: Callable, *arguments) -> float:
    """Return the duration of a step in seconds, until the GPU has finished it."""
    synchronize()
    began = time.perf_counter()
    step(*arguments)
    synchronize()
    return time.perf_counter() - began


def times_faster(other: Sequence[float], own: Sequence[float]) -> tuple[float, float, float]:
    """Return the speed-up of `own` over `other`: the median over rounds and its 95 % interval."""
    ratios = [a / b for a, b in zip(other, own, strict=True)]
    return statistics.median(ratios), *median_interval(ratios, 2000, seed=1)


def machine() -> str:
    """Return a description of the machine and its software."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    threads = torch.get_num_threads()
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    return f"{device}, {threads} threads, {versions}"


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def report(rows: list[dict], columns: dict[str, Callable], file: str | None) -> None:
    """Print a table, and write the rows as JSON if a file is named."""
    print(f"machine: {machine()}")
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(show(row) for show in columns.values()) + " |")
    if file:
        write_json(file, rows, indent=2)


def interval(row: dict) -> str:
    return f"{row['low']:.3f} to {row['high']:.3f}"


def quiet() -> None:
    """Suppress the log and the warnings of fairseq and torch, so that only tables are printed."""
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")


def models_parser(description: str, default: list[str], meaning: str) -> ArgumentParser:
    """Return a parser with the options of benchmarks that compare models with stock fairseq."""
    parser, usual = ArgumentParser(description=description), "(default: %(default)s)"
    add = parser.add_argument
    add("--size", choices=SIZES, default="base", help=f"size of the models {usual}")
    add("--vocabulary", type=int, default=10_000, help=f"size of the vocabulary {usual}")
    add("--length", type=int, default=30, help=f"mean sentence length in pieces {usual}")
    add("--sentences", type=int, default=4000, help=f"number of sentences in the corpus {usual}")
    add("--pairs", type=int, default=15, help=f"number of measurements of each model {usual}")
    add("--json", help="also write the rows to this file")
    add("specifications", nargs="*", default=default, help=meaning)
    add("--batches", type=int, default=5, help=f"number of different batches {usual}")
    return parser
