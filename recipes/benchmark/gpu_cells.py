"""The checks and measurements of `gpu.py`, which describes the parts."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.trainer import Trainer
from setting import Model, configure, make_corpus, set_up, training_options
from train_speed import DEFAULT as SPECIFICATIONS

from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs, moved, real_pieces
from fairseq_posattn.scoring.training_log import measured_in
from fairseq_posattn.testing import NotApplicable, examples_of
from fairseq_posattn.testing.layer import attention
from fairseq_posattn.testing.outcomes import BrokenPromise
from fairseq_posattn.testing.paths import half_precision_is_close

HERE = Path(__file__).parent
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
UPDATES = 30  # length of short training runs
HALVES = ("--fp16", "--memory-efficient-fp16", "--amp", "--bf16", "--memory-efficient-bf16")
FASTER = "--optimizer fused_adam --criterion fused_label_smoothed_cross_entropy --fast-dropout"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1"]
SLOWEST = (  # the most important first
    *("structural", "tree_gcn@0", "block@0-2", "tree_labels", "disentangled(max=64)"),
    *("local_hard@0-2", "local_soft@0-2", "/ / local_hard", "tree_distance", "tree_supervised@3"),
)
FLEXIBLE = ("window(size=11)", "window(size=101)", "window(size=11) + t5_bias", "block")
MULTI30K = ("sequence", "structural", "structural_chain", "relative")
TRAINED = 3000  # updates of each model of Multi30k
limit = math.inf  # time.monotonic() at which a running program is stopped


class TimeLimit(Exception):
    """The time limit was reached before a program had finished."""


@dataclass(frozen=True)
class Cell:
    """One check or measurement; `run` returns rows of a table."""

    part: str
    name: str
    run: Callable[[], list[dict]]


def cells(small: bool, multi30k: Path) -> Iterator[Cell]:
    yield from checks(small)
    yield from speeds(small)
    yield from windows(small)
    yield from compiled(small)
    yield from lengths(small)
    yield from slowest(small)
    options = ["--rounds", "2", "--tokens", "50", "--vocabularies", "200"] if small else []
    yield command("f", "loss", "loss_speed.py", *options)
    if (multi30k / "data").exists():
        yield Cell("g", "Multi30k", lambda: trained_on_multi30k(small, multi30k))


def checks(small: bool) -> Iterator[Cell]:
    """Yield the cells of part a: outputs, gradients and short training runs."""
    names = ["window", "relative", "tree_distance"] if small else list(MECHANISMS)
    for name in names:
        for specification in examples_of(MECHANISMS[name]):
            yield Cell("a", specification, lambda s=specification: checked(s))
    for specification in ["relative", "tree_supervised@1"] if small else SPECIFICATIONS:
        yield Cell("a", f"train {specification}", lambda s=specification: short_training(s))
    for options in ["", *(HALVES if torch.cuda.is_available() else ())]:
        for steps, added in (("stock steps", ""), ("faster steps", FASTER)):
            name = f"fairseq-train {options or 'in float32'}, {steps}"
            given = f"{options} {added}".split()
            yield Cell("a", name, lambda given=given: trained_by_fairseq(given))
    yield Cell("a", "torchrun", lambda: trained_by_fairseq([], TORCHRUN))


def speeds(small: bool) -> Iterator[Cell]:
    """Yield the cells of part b: training and translation."""
    chosen = ["structural", *SPECIFICATIONS]
    few = ["relative"] if small else ["structural", "relative", "window@0-2", "block@0-2"]
    runs = [("base", 4096), ("base", 16384), ("big", 8192)]
    precision = ["--fairseq", "bf16"] if torch.cuda.is_available() else []
    common = ["--vocabulary", "32000", "--pairs", "9", "--batches", "3"]
    if small:
        chosen, runs = few, [("toy", 500)]
        common = ["--pairs", "2", "--batches", "2", "--vocabulary", "500", "--sentences", "50"]
    for size, tokens in runs:
        for first in range(0, len(chosen), 6):
            some = chosen[first : first + 6]
            options = ["--size", size, "--max-tokens", str(tokens), *common, "--speed-only"]
            name = f"training, {size}, {tokens:,} pieces, models {first + 1} to {first + len(some)}"
            yield command("b", name, "train_speed.py", *some, *options, *precision)
    options = ["--size", runs[0][0], "--max-tokens", str(runs[0][1]), *common]
    yield command("b", "peak memory of training", "train_speed.py", *few, *options, *precision)
    options = ["--size", runs[0][0], *common, "--batch-size", "4" if small else "128"]
    yield command("b", "translation", "generate_speed.py", *few, *options)


def windows(small: bool) -> Iterator[Cell]:
    """Yield the cells of part c: comparison with other packages, and long inputs."""
    for length in [300] if small else [1024, 4096, 16384]:
        options = ["--no-encoders", "--window-length", str(length)]
        options += ["--rounds", "2"] if small else []
        yield command("c", f"windows at {length:,} pieces", "peers.py", *options)
    lengths = ["64", "128"] if small else ["1024", "4096", "16384"]
    options = ["--lengths", *lengths, "--tokens", lengths[-1]]
    options += ["--rounds", "2", "--width", "64"] if small else []
    yield command("c", "time and memory by length", "attention_scaling.py", *options)
    options = ["--no-windows"] + (
        ["--rounds", "2", "--tokens", "200"] if small else ["--tokens", "8192"]
    )
    yield command("c", "encoders", "peers.py", *options)


def compiled(small: bool) -> Iterator[Cell]:
    """Yield the cells of part d: training runs with --compile, the most important first."""
    sizes = [("toy", 300)] if small else [("base", 16384), ("small", 4096), ("base", 4096)]
    options = ["--vocabulary", "32000", "--pairs", "9", "--batches", "3"]
    if small:
        options = ["--pairs", "2", "--batches", "1", "--vocabulary", "100", "--sentences", "40"]
    options += ["--fairseq", "bf16"] if torch.cuda.is_available() else []
    ways = [f"--compile {FASTER}", "--compile", "--compile --compile-mode default", FASTER]
    for way in ways[1:2] if small else ways:
        for size, tokens in sizes:
            for model in ["sequence"] if small else ["structural", "sequence"]:
                given = [f"{model}; {way}", "--size", size, "--max-tokens", str(tokens)]
                if way != ways[0] or small:
                    given.append("--speed-only")
                name = f"{model}, {size}, {tokens:,} pieces, {way}"
                yield command("d", name, "train_speed.py", *given, *options)


def slowest(small: bool) -> Iterator[Cell]:
    """Yield the cells of part h: the slowest mechanisms, eager and then with --compile."""
    options = ["--size", "base", "--max-tokens", "16384", "--vocabulary", "32000"]
    options += ["--pairs", "9", "--batches", "2", "--speed-only"]
    if small:
        options = ["--size", "toy", "--max-tokens", "300", "--vocabulary", "100"]
        options += ["--sentences", "40", "--pairs", "2", "--batches", "1", "--speed-only"]
    options += ["--fairseq", "bf16"] if torch.cuda.is_available() else []
    models = SLOWEST[:2] if small else SLOWEST
    yield command("h", "eager", "train_speed.py", *models, *options)
    for model in () if small else models:
        yield command("h", f"{model}; --compile", "train_speed.py", f"{model}; --compile", *options)


def lengths(small: bool) -> Iterator[Cell]:
    """Yield the cells of part e: windows and blocks with and without FlexAttention, by length."""
    options = ["--lengths", *(["64"] if small else ["512", "1024", "2048", "4096", "16384"])]
    options += ["--tokens", "64", "--rounds", "2"] if small else ["--tokens", "16384"]
    for specification in FLEXIBLE:
        yield command("e", specification, "attention_scaling.py", specification, *options)


def trained_on_multi30k(small: bool, work: Path) -> list[dict]:
    """Train and evaluate models on Multi30k, three seeds each, in parallel; return the table."""
    line = [sys.executable, "-m", "fairseq_posattn", "recipe", "table", "multi30k_en_de"]
    line += ["--work", str(work), "--models", *MULTI30K]
    if small:
        line += ["--size", "demo", "--cpu", "--seeds", "1", "--updates", "4"]
    else:
        at_once = str(len(MULTI30K) * 3)
        line += ["--size", "small", "--seeds", "1-3", "--updates", str(TRAINED)]
        line += ["--at-once", at_once, "--", *FASTER.split()]
    code, said = output_of(line)
    if code:
        return [failure(said)]
    with open(work / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


def output_of(line: Sequence[str]) -> tuple[int, str]:
    """Run a program; return its exit code and output.

    At the time limit, stop the program and raise TimeLimit.
    """
    left = None if math.isinf(limit) else max(1.0, limit - time.monotonic())
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as program:
        try:
            said, _ = program.communicate(timeout=left)
        except BaseException as error:
            os.killpg(program.pid, signal.SIGTERM)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeLimit from None
            raise
    return program.returncode, said


def command(part: str, name: str, script: str, *options: str) -> Cell:
    """Return a cell that runs another benchmark."""

    def run() -> list[dict]:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "rows.json"
            line = [sys.executable, str(HERE / script), *options, "--json", str(out)]
            code, said = output_of(line)
            if code:
                return [failure(said)]
            return json.loads(out.read_text())

    return Cell(part, name, run)


def failure(printed: str) -> dict:
    """Return a row that reports a failure with the last line of output."""
    return {"found": f"FAILED: {(printed.strip().splitlines() or ['no message'])[-1][:200]}"}


def checked(specification: str) -> list[dict]:
    """Check in each precision that outputs are close to the CPU's and that gradients are finite."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for name, dtype in PRECISIONS.items():
        try:
            half_precision_is_close(specification, dtype, device)
            check_gradients(specification, dtype, device)
            found = "ok"
        except NotApplicable as reason:
            found = f"not applicable: {reason}"
        except (BrokenPromise, RuntimeError) as error:
            found = f"FAILED: {' '.join(str(error).split())[:200]}"
        rows.append({"precision": name, "found": found})
    return rows


def check_gradients(specification: str, dtype: torch.dtype, device: str) -> None:
    """Raise BrokenPromise if gradients of the input are not finite."""
    ctx = context(TREES)
    x = inputs(TREES, ctx, dtype=torch.float).to(device, dtype).requires_grad_()
    out = attention(specification).float().to(device, dtype).output(x, moved(ctx, device))
    out[real_pieces(ctx).T.to(device)].float().square().sum().backward()
    if x.grad is None or not torch.isfinite(x.grad).all():
        raise BrokenPromise("finite gradients", "nan or infinity")


def short_training(specification: str) -> list[dict]:
    """Train a small model of four layers; return its first and last loss."""
    precision = ["--bf16"] if torch.cuda.is_available() else []
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), 64, 100, 12)
        options = ["--max-tokens", "400", "--max-source-positions", "256", "--lr", "1e-2"]
        options += ["--encoder-layers", "4", "--decoder-layers", "4"]
        cfg = configure(Path(folder), Model.parse(specification), "toy", *options, *precision)
        cfg.optimization.lr = cfg.optimizer.lr = cfg.lr_scheduler.lr = [2e-3]
        task, model, criterion = set_up(cfg)
        trainer = Trainer(cfg, task, model, criterion)
        epoch = trainer.get_train_iterator(1, load_dataset=False)
        batches = list(epoch.next_epoch_itr(shuffle=False))
        trainer.begin_epoch(1)
        losses = []
        for k in range(UPDATES):
            losses.append(trainer.train_step([batches[k % len(batches)]])["loss"])
    return [of_losses(losses)]


def trained_by_fairseq(options: list[str], launcher: Sequence[str] = ()) -> list[dict]:
    """Train the structural model with fairseq-train; return its first and last loss.

    launcher: arguments of Python before the program, such as torchrun.
    """
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), 64, 100, 12)
        given = training_options(Path(folder), Model.parse("structural"), "toy")
        given += ["--max-tokens", "400", "--lr", "2e-3", "--max-update", str(UPDATES)]
        given += ["--log-format", "json", "--log-interval", "1", "--disable-validation"]
        line = [sys.executable, *launcher, "-m", "fairseq_cli.train", *given, *options]
        code, said = output_of(line)
    lines = [found for line in said.splitlines() if (found := measured_in(line))]
    losses = [math.nan if one.loss is None else one.loss for one in lines if not one.subset]
    if code or not losses:
        return [failure(said)]
    return [of_losses(losses)]


def of_losses(losses: list[float]) -> dict:
    """Return the first and last loss of training, and whether the loss decreases."""
    falls = losses[-1] < losses[0] and all(map(math.isfinite, losses))
    row = {"first loss": round(losses[0], 3), "last loss": round(losses[-1], 3)}
    return {**row, "found": "ok" if falls else "FAILED: the loss does not decrease"}
