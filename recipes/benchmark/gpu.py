"""Check and measure everything on one GPU; see `gpu.sh` for its usage.

a: with each of a mechanism's example options, the output in float32, bfloat16 and float16 must be
   close to that in float64 on the CPU, and gradients must be finite; in short trainings of each
   mechanism, with fairseq-train in all its precisions, and with torchrun, the loss must decrease.
b: training speed of all mechanisms in bfloat16 at the sizes Base and Big, translation speed, and
   peak memory (`train_speed.py`, `generate_speed.py`).
c: windows compared with FlexAttention, flash-attn and local-attention, if installed (`peers.py`),
   and time and memory of attention by length (`attention_scaling.py`).

Each part is a list of cells. The result of each cell is saved as soon as it is complete, and is not
computed again on the same machine with the same version of torch.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.trainer import Trainer
from setting import Model, configure, machine, make_corpus, set_up, training_options
from train_speed import DEFAULT as SPECIFICATIONS

from fairseq_posattn.core.attention import MECHANISMS
from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs, moved, real_pieces
from fairseq_posattn.errors import InputError
from fairseq_posattn.files import command_line
from fairseq_posattn.files.atomic import written_whole
from fairseq_posattn.files.files import write_json
from fairseq_posattn.scoring.training_log import measured_in
from fairseq_posattn.testing import NotApplicable, examples_of
from fairseq_posattn.testing.layer import attention
from fairseq_posattn.testing.outcomes import BrokenPromise
from fairseq_posattn.testing.paths import half_precision_is_close

HERE = Path(__file__).parent
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
STRUCTURAL = "sequence + tree_depth / relative + tree_relative"
SECONDS = 570  # time limit of a part
UPDATES = 30  # length of a short training
HALVES = ("--fp16", "--memory-efficient-fp16", "--amp", "--bf16", "--memory-efficient-bf16")
FASTER = "--optimizer fused_adam --criterion fused_label_smoothed_cross_entropy --fast-dropout"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1"]


@dataclass(frozen=True)
class Cell:
    """One check or measurement; `run` returns rows of a table."""

    part: str
    name: str
    run: Callable[[], list[dict]]


def cells(small: bool) -> Iterator[Cell]:
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
    yield from speeds(small)
    yield from windows(small)


def speeds(small: bool) -> Iterator[Cell]:
    """Yield the cells of part b: training and translation."""
    chosen = [STRUCTURAL, *SPECIFICATIONS]
    few = ["relative"] if small else [STRUCTURAL, "relative", "window@0-2", "block@0-2"]
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


def command(part: str, name: str, script: str, *options: str) -> Cell:
    """Return a cell that runs another benchmark."""

    def run() -> list[dict]:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "rows.json"
            line = [sys.executable, str(HERE / script), *options, "--json", str(out)]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                return [failure(done.stderr)]
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
        given = training_options(Path(folder), Model.parse(STRUCTURAL), "toy")
        given += ["--max-tokens", "400", "--lr", "2e-3", "--max-update", str(UPDATES)]
        given += ["--log-format", "json", "--log-interval", "1", "--disable-validation"]
        line = [sys.executable, *launcher, "-m", "fairseq_cli.train", *given, *options]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    lines = [found for line in said.splitlines() if (found := measured_in(line))]
    losses = [math.nan if one.loss is None else one.loss for one in lines if not one.subset]
    if done.returncode or not losses:
        return [failure(said)]
    return [of_losses(losses)]


def of_losses(losses: list[float]) -> dict:
    """Return the first and last loss of a training, and whether the loss decreases."""
    falls = losses[-1] < losses[0] and all(map(math.isfinite, losses))
    row = {"first loss": round(losses[0], 3), "last loss": round(losses[-1], 3)}
    return {**row, "found": "ok" if falls else "FAILED: the loss does not decrease"}


def do_part(part: str, todo: list[Cell], out: Path, seconds: float) -> bool:
    """Run the remaining cells of a part within a time limit; return whether all are complete."""
    path, began = out / f"{part}.jsonl", time.monotonic()
    before = records(path)
    with written_whole(path) as file:  # drop a line that an interruption has truncated
        file.writelines(json.dumps(record) + "\n" for record in before)
    done = {(record["machine"], record["name"]) for record in before}
    left = [cell for cell in todo if (machine(), cell.name) not in done]
    for number, cell in enumerate(left):
        if time.monotonic() - began > seconds:
            print(f"part {part}: {len(left) - number} cells are left; run it again to resume")
            return False
        print(f"part {part}, {number + 1} of {len(left)}: {cell.name} ...", flush=True)
        record = {"machine": machine(), "part": part, "name": cell.name, "rows": rows_of(cell)}
        with open(path, "a") as file:
            file.write(json.dumps(record) + "\n")
    return True


def rows_of(cell: Cell) -> list[dict]:
    """Run a cell; an exception becomes a row that reports the failure."""
    try:
        return cell.run()
    except Exception as error:
        return [failure(f"{type(error).__name__}: {error}")]


def records(path: Path) -> list[dict]:
    """Read saved results; skip a line that an interruption has truncated."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def table(found: list[dict]) -> str:
    """Format all rows as Markdown, with one table per part."""
    lines = []
    for part in "abc":
        rows = [
            (one["name"], " · ".join(f"{k}: {shown(v)}" for k, v in row.items() if v is not None))
            for one in found
            if one["part"] == part
            for row in one["rows"]
        ]
        if rows:
            lines += [f"## Part {part}", "", "| What | Found |", "|---|---|"]
            lines += ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in rows]
            lines.append("")
    return "\n".join(lines)


def shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run the requested parts, and write gpu.json and gpu.md."""
    parser = argparse.ArgumentParser(prog="gpu.sh", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the results")
    parser.add_argument("--part", choices="abc", help="run only this part (default: all)")
    parser.add_argument(
        "--small", action="store_true", help="try all parts with small sizes, even without a GPU"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="time after which a part starts no new cell"
    )
    options = parser.parse_args()
    logging.disable(logging.INFO)
    if not torch.cuda.is_available() and not options.small:
        raise InputError("no GPU is available; add --small to try all parts without one")
    options.out.mkdir(parents=True, exist_ok=True)
    todo, whole = list(cells(options.small)), True
    for part in options.part or "abc":
        mine = [cell for cell in todo if cell.part == part]
        whole &= do_part(part, mine, options.out, options.seconds)
    found = [record for part in "abc" for record in records(options.out / f"{part}.jsonl")]
    write_json(str(options.out / "gpu.json"), found, indent=1)
    with written_whole(options.out / "gpu.md") as file:
        file.write(f"{machine()}\n\n{table(found)}")
    failed = [r["name"] for r in found for row in r["rows"] if "FAILED" in str(row.get("found"))]
    print(f"{options.out / 'gpu.md'}: {len(found)} cells, {len(failed)} failures")
    if failed:
        raise InputError(f"{', '.join(failed[:10])} failed; see {options.out / 'gpu.md'}")
    if not whole:
        raise InputError("the time limit was reached; run the same command again to resume")


if __name__ == "__main__":
    command_line.run(main)
