"""The real programs, run as a user runs them."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

from support import warm

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "fairseq_posattn"
PATIENCE = 600  # seconds to wait for a process: over ten times what the slowest one takes
TINY = [
    *("--encoder-layers", "2", "--decoder-layers", "1"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "64"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
]
FULL_TREE = [
    *("--encoder-positions", "sequence + tree_depth"),
    *("--encoder-attention", "relative + tree_relative"),
]


def run(
    *command, check=True, input=None, env=None, cwd=ROOT, fresh=False
) -> subprocess.CompletedProcess:
    """Run a command; with check, a failure shows the end of its output.

    This environment's Python starts warm (see support.warm), unless `fresh` asks for a new one.
    """
    program, *arguments = command
    if program == sys.executable and not fresh:
        program = warm.python()
    result = subprocess.run(
        [str(part) for part in (program, *arguments)],
        input=input,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        cwd=cwd,
    )
    if check and result.returncode:
        raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stdout[-4000:]}")
    return result


def script(path: Path) -> ModuleType:
    """Load a recipe's program as a module, under a name of its own."""
    name = f"{path.parent.name}_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses and pickle look there
    with mock.patch.object(sys, "path", [str(path.parent), *sys.path]):  # it imports its neighbours
        specification.loader.exec_module(module)
    return module


def step(name: str, *arguments, **kwargs) -> subprocess.CompletedProcess:
    """Run a step of the preparation."""
    return run(sys.executable, ROOT / "preprocess" / f"{name}.py", *arguments, **kwargs)


def fairseq(program: str, *arguments, **kwargs) -> subprocess.CompletedProcess:
    """Run one of fairseq's programs, such as fairseq-train."""
    return run(sys.executable, "-m", f"fairseq_cli.{program}", *arguments, **kwargs)


def training_options(data: Path, save_dir: Path, *options: str) -> list:
    """A tiny training on the CPU; later options win over earlier ones."""
    return [
        *(data, "--user-dir", PLUGIN, "--task", "structured_translation", "-s", "src", "-t", "tgt"),
        *("--arch", "posattn_transformer", *TINY, "--cpu", "--num-workers", "0", "--seed", "1"),
        *("--optimizer", "adam", "--lr", "1e-3", "--max-tokens", "1000", "--max-update", "4"),
        *("--dropout", "0", "--log-format", "simple", "--log-interval", "1"),
        *("--save-dir", save_dir, *options),
    ]


def train(data: Path, save_dir: Path, *options: str, **kwargs) -> subprocess.CompletedProcess:
    return fairseq("train", *training_options(data, save_dir, *options), **kwargs)


def translating(data: Path, checkpoint: Path) -> list:
    return [
        *(data, "--user-dir", PLUGIN, "--task", "structured_translation", "-s", "src", "-t", "tgt"),
        *("--path", checkpoint, "--cpu", "--beam", "2", "--num-workers", "0"),
        *("--max-len-b", "20"),  # a model that is hardly trained ends its sentences late
    ]


def generate(data: Path, checkpoint: Path, *options: str, **kwargs) -> subprocess.CompletedProcess:
    common = translating(data, checkpoint)
    return fairseq("generate", *common, "--batch-size", "16", *options, **kwargs)


def losses(output: str) -> list[str]:
    """Return the training loss of each update, as printed."""
    return re.findall(r"train_inner \|.* loss=([\d.]+)", output)


def hypotheses(output: str) -> dict[int, str]:
    """Return the best translation of each sentence, by its number."""
    return {int(n): text for n, text in re.findall(r"^H-(\d+)\t\S+\t(.*)$", output, re.M)}


def make_toy_data(folder: Path, train: int = 400, dev: int = 60, test: int = 60) -> None:
    """raw/ from the generator; then words, parents, pieces, trees and data/, step by step."""
    sizes = ["--train", train, "--dev", dev, "--test", test]
    run(sys.executable, ROOT / "recipes/toy/treebank.py", folder / "raw", "--seed", 1, *sizes)
    for split in ("train", "dev", "test"):
        step("extract", folder / f"raw/{split}.src.conllu", "--out", folder / split)
    texts = [folder / "train.words", folder / "raw/train.tgt"]
    step("segment", "learn", *texts, "--codes", folder / "codes", "--symbols", 200)
    for split in ("train", "dev", "test"):
        segment(folder, folder / f"{split}.words", folder / f"{split}.src")
        segment(folder, folder / f"raw/{split}.tgt", folder / f"{split}.tgt")
        project(folder / split)
    binarize(folder, folder / "data")


def segment(folder: Path, text: Path, out: Path) -> None:
    step("segment", "apply", text, "--codes", folder / "codes", "--out", out)


def project(start: Path, *options) -> None:
    step(
        "project",
        *("--words", f"{start}.words", "--parents", f"{start}.parents"),
        *("--pieces", f"{start}.src", *options),
    )


def make_labelled_data(toy: Path, folder: Path) -> None:
    """The data of `make_toy_data` once more, with labels of words."""
    folder.mkdir()
    for split in ("train", "dev", "test"):
        for kind in ("words", "parents", "labels", "src", "tgt"):
            shutil.copy(toy / f"{split}.{kind}", folder)
        project(folder / split, "--labels", folder / f"{split}.labels")
    binarize(folder, folder / "data")


def binarize(folder: Path, destination: Path, *options, **kwargs) -> subprocess.CompletedProcess:
    return step(
        "binarize",
        *("--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"),
        *("--trainpref", folder / "train", "--validpref", folder / "dev"),
        *("--testpref", folder / "test", "--destdir", destination, *options),
        **kwargs,
    )
