"""Measure time and memory of the output projection with label-smoothed cross-entropy.

    python recipes/benchmark/loss_speed.py --json loss.json

Forward and backward pass of one batch, from the decoder's features on:

stock: fairseq's label_smoothed_cross_entropy, which keeps scores, log-probabilities and gradients
whole: fused_label_smoothed_cross_entropy, which overwrites the scores with their gradient
parts: the same with --chunked-loss (on a CPU, the default), which never stores all scores

Memory is the peak of torch's allocator, excluding features and embeddings. torch's own
linear_cross_entropy is not measured, because it does not support label smoothing (torch 2.13).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

import torch
from attention_scaling import DEVICE, Cell, peaks_on_cpu, peaks_on_cuda
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from setting import in_turns, interval, quiet, report, seconds, times_faster
from torch import Tensor

from fairseq_posattn.core.label_smoothing import projected_cross_entropy, smoothed_cross_entropy
from fairseq_posattn.files import command_line

SMOOTHING, PADDING = 0.1, 1
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def stock(features: Tensor, table: Tensor, targets: Tensor) -> Tensor:
    scores = torch.log_softmax(features @ table.T, dim=-1, dtype=torch.float32)
    return label_smoothed_nll_loss(scores, targets[:, None], SMOOTHING, PADDING)[0]


def whole(features: Tensor, table: Tensor, targets: Tensor) -> Tensor:
    return smoothed_cross_entropy(features @ table.T, targets, SMOOTHING, PADDING)[0]


def parts(features: Tensor, table: Tensor, targets: Tensor) -> Tensor:
    return projected_cross_entropy(features, table, targets, SMOOTHING, PADDING)[0]


def cell(name: str, loss: Loss, vocabulary: int, args: Namespace) -> Cell:
    """Return a batch with its loss, in the form in which attention_scaling.py measures memory."""
    torch.manual_seed(1)
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
    features = torch.randn(args.tokens, args.width, device=DEVICE, dtype=dtype)
    table = torch.randn(vocabulary, args.width, device=DEVICE, dtype=dtype) * args.width**-0.5
    targets = torch.randint(PADDING + 1, vocabulary, (args.tokens,), device=DEVICE)
    inputs = [features.requires_grad_(), table.requires_grad_()]
    one = torch.ones(1, 1, 1, device=DEVICE)
    return Cell(name, lambda *given: loss(*given, targets).float().view(1, 1, 1), inputs, one)


def rows_of(vocabulary: int, args: Namespace) -> list[dict]:
    """Measure all losses with a vocabulary; return one row for each."""
    kinds = {"stock": stock, "whole": whole, "parts": parts}
    cells = [cell(name, loss, vocabulary, args) for name, loss in kinds.items()]
    peaks = (peaks_on_cuda if DEVICE.type == "cuda" else peaks_on_cpu)(cells)
    for one in cells:
        one.step()
    taken = in_turns({one.name: lambda _, o=one: seconds(o.step) for one in cells}, args.rounds)
    rows = []
    for name, peak in zip(kinds, peaks, strict=True):
        ratio, low, high = times_faster(taken["stock"], taken[name])
        speed = {"loss": name, "ratio": ratio, "low": low, "high": high}
        rows.append({"vocabulary": vocabulary, **speed, "peak_memory": peak})
    return rows


def main() -> None:
    """Measure each vocabulary, and print the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add, usual = parser.add_argument, "(default: %(default)s)"
    add("--vocabularies", type=int, nargs="+", default=[10_000, 32_000], help=f"sizes {usual}")
    tokens = 16_384 if DEVICE.type == "cuda" else 1000
    add("--tokens", type=int, default=tokens, help=f"target pieces per batch {usual}")
    add("--width", type=int, default=512, help=f"width of the decoder {usual}")
    add("--rounds", type=int, default=15, help=f"number of measurements {usual}")
    add("--json", help="also write the rows to this file")
    args = parser.parse_args()
    quiet()
    rows = [row for vocabulary in args.vocabularies for row in rows_of(vocabulary, args)]
    columns = {
        "vocabulary": lambda r: f"{r['vocabulary']:,}",
        "loss": lambda r: r["loss"],
        "speed to stock": lambda r: f"{r['ratio']:.3f}",
        "95 % interval": interval,
        "peak memory, MB": lambda r: f"{r['peak_memory'] / 1e6:.1f}",
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
