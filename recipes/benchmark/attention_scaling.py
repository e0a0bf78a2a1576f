"""Measure time and memory of attention by sentence length.

    python recipes/benchmark/attention_scaling.py --json scaling.json

Only the attention is measured, forward and backward, with queries, keys and values in the memory
layout of a layer. Projections are excluded, because their cost per token does not depend on the
length. All batches have the same number of pieces.

Times are medians of several rounds, in each of which every cell is measured once. Memory is the
peak of torch's allocator, excluding queries, keys, values and the gradient of the output. On the
CPU, it is computed from the profiler's record of allocations, including those inside kernels;
unlike the size of the process, this is reproducible.

On CUDA, everything is in bfloat16, and mechanisms that torch's FlexAttention supports are measured
with and without it. Choose the threshold fairseq_posattn.core.attention.flex.SHORTEST from this
table.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import torch
from setting import in_turns, report, seconds
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    Mechanism,
    attend,
    flex,
)
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.files import command_line

WINDOWS = ["window(size=11)", "window(size=11, across=3)"]
FUSED, EXPLICIT = "full, fused", "full, single steps"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WARM_UP = 2

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # B H T D each


@dataclass
class Cell:
    """One kind of attention at one sentence length."""

    name: str
    attention: Attention
    inputs: list[Tensor]  # q, k, v: B H T D
    of_out: Tensor  # the gradient of the output

    @property
    def length(self) -> int:
        return self.of_out.size(2)

    @property
    def pieces(self) -> int:
        return self.of_out.size(0) * self.length

    def step(self) -> None:
        """Run the attention forward and backward."""
        self.clear()
        self.attention(*self.inputs).backward(self.of_out)

    def clear(self) -> None:
        for x in self.inputs:
            x.grad = None


def cells_of_length(length: int, specifications: list[str], args) -> list[Cell]:
    """Return the cells of one sentence length: full attention, and each specification."""
    shape = AttentionShape(args.heads, args.width // args.heads, max_positions=length)
    batch = max(1, args.tokens // length)
    q, k, v, of_out = (heads_of_random_input(length, batch, shape) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    kinds = {FUSED: through_pipeline("", shape), EXPLICIT: through_pipeline("", shape, True)}
    kinds |= {s: through_pipeline(s, shape) for s in specifications}
    for s in specifications if DEVICE.type == "cuda" else ():
        if flex.limits(AttentionContext(length, DEVICE), mechanisms_of(s, shape)):
            kinds[f"{s}, FlexAttention"] = through_pipeline(s, shape, shortest=1)
    return [Cell(name, attention, inputs, of_out) for name, attention in kinds.items()]


def heads_of_random_input(length: int, batch: int, shape: AttentionShape) -> Tensor:
    """Return a random tensor of shape B H T D, in the memory layout T B C of a projection."""
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
    x = torch.randn(length, batch, shape.heads, shape.head_width, device=DEVICE, dtype=dtype)
    return x.permute(1, 2, 0, 3)


def mechanisms_of(specification: str, shape: AttentionShape) -> list[Mechanism]:
    return [m.to(DEVICE) for m in AttentionSpecification(specification).build(0, shape)]


def through_pipeline(
    specification: str, shape: AttentionShape, weights=False, shortest=math.inf
) -> Attention:
    """Return a function that computes the attention.

    weights: whether to compute the weights, which rules out fused kernels.
    shortest: the shortest input for which FlexAttention is used.
    """
    mechanisms = mechanisms_of(specification, shape)
    needs_tree = any(m.needs_tree for m in mechanisms)

    def attention(q, k, v):
        flex.SHORTEST = shortest
        tree = random_trees(len(q), q.size(2)) if needs_tree else None
        ctx = AttentionContext(q.size(2), DEVICE, tree=tree)
        return attend(q, k, v, ctx, mechanisms, need_weights=weights)[0]

    return attention


@functools.cache
def parents_of_words(batch: int, words: int) -> Tensor:
    """Return random parents (B W): each word's parent precedes it, and the first is the root."""
    share = torch.rand(batch, words, generator=torch.Generator().manual_seed(1))
    return (share * torch.arange(words)).long().to(DEVICE)


def random_trees(batch: int, length: int) -> SourceTree:
    """Return trees of sentences with one piece per word, without labels or cached properties."""
    words = torch.arange(length, device=DEVICE).expand(batch, -1)
    return SourceTree(words, parents_of_words(batch, length), has_end=False)


def peaks_on_cuda(cells: list[Cell]) -> list[int]:
    """Return the peak memory of each cell on a GPU, in bytes."""
    peaks = []
    for cell in cells:
        cell.clear()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        cell.step()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    return peaks


def peaks_on_cpu(cells: list[Cell]) -> list[int]:
    """Return the peak memory of each cell on the CPU, in bytes."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        for k, cell in enumerate(cells):
            cell.clear()
            print(f"measuring the memory of {cell.name}, {cell.length:,} pieces", flush=True)
            with record_function(f"cell {k}"):
                cell.step()
    events = trace(record)
    changes = [(e["ts"], e["args"]["Bytes"]) for e in events if e["name"] == "[memory]"]
    changes.sort(key=lambda change: change[0])
    spans = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in events if "dur" in e}
    spans = [spans[f"cell {k}"] for k in range(len(cells))]
    return [highest([x for t, x in changes if start <= t <= end]) for start, end in spans]


def trace(record: profile) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        record.export_chrome_trace(str(file))
        return json.loads(file.read_text(encoding="utf-8"))["traceEvents"]


def highest(changes: list[int]) -> int:
    """Return the maximum of the running sum of allocations (positive) and releases (negative)."""
    return max(accumulate(changes))


def measure_speed(cells: list[Cell], rounds: int) -> list[float]:
    """Return the median time of a step of each cell, in seconds."""
    for cell in cells:
        for _ in range(WARM_UP):
            cell.step()
    steps = {f"{c.name}, {c.length:,} pieces": lambda _, c=c: seconds(c.step) for c in cells}
    return [statistics.median(taken) for taken in in_turns(steps, rounds).values()]


def rows_of(cells: list[Cell], taken: list[float], peaks: list[int]) -> list[dict]:
    """Return the results of each cell for the table and the JSON file."""
    per_piece = {(c.name, c.length): s / c.pieces for c, s in zip(cells, taken, strict=True)}
    first, alone = cells[0].length, cells[2].name
    return [
        {
            "attention": cell.name,
            "length": cell.length,
            "batch": cell.pieces // cell.length,
            "microseconds_per_token": per_piece[cell.name, cell.length] * 1e6,
            "to_first_length": per_piece[cell.name, cell.length] / per_piece[cell.name, first],
            "to_fused": per_piece[cell.name, cell.length] / per_piece[FUSED, cell.length],
            "to_mechanism": per_piece[cell.name, cell.length] / per_piece[alone, cell.length],
            "peak_memory": peak,
        }
        for cell, peak in zip(cells, peaks, strict=True)
    ]


def arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "specifications",
        nargs="*",
        default=WINDOWS,
        help="mechanisms to compare with full attention (default: two windows)",
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[256, 512, 1024, 2048, 4096],
        help="sentence lengths in pieces (default: 256 to 4096)",
    )
    add = parser.add_argument
    add("--tokens", type=int, default=4096, help="pieces per batch (default: %(default)s)")
    add("--width", type=int, default=512, help="width of the layer (default: %(default)s)")
    add("--heads", type=int, default=8, help="number of attention heads (default: %(default)s)")
    add("--rounds", type=int, default=7, help="number of measurements (default: %(default)s)")
    add("--json", help="also write the rows to this file")
    return parser.parse_args()


def main() -> None:
    """Measure all cells, and print the table."""
    args = arguments()
    torch.manual_seed(1)
    cells = [c for n in sorted(args.lengths) for c in cells_of_length(n, args.specifications, args)]
    peaks = peaks_on_cuda(cells) if DEVICE.type == "cuda" else peaks_on_cpu(cells)
    rows = rows_of(cells, measure_speed(cells, args.rounds), peaks)
    rows.sort(key=lambda r: [c.name for c in cells].index(r["attention"]))
    columns = {
        "attention": lambda r: r["attention"],
        "pieces": lambda r: f"{r['batch']} × {r['length']:,}",
        "µs a token": lambda r: f"{r['microseconds_per_token']:.1f}",
        "to first length": lambda r: f"{r['to_first_length']:.2f}",
        "to full, fused": lambda r: f"{r['to_fused']:.2f}",
        f"to {args.specifications[0]}": lambda r: f"{r['to_mechanism']:.2f}",
        "peak memory, MB": lambda r: f"{r['peak_memory'] / 1e6:.1f}",
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
