"""Measure time and memory of attention against the length of a sentence.

    python recipes/benchmark/attention_scaling.py --json scaling.json

Only the attention is measured, from queries, keys and values (laid out as a layer has them) to its
output and back to their gradients. The projections around it cost the same at every length and
would hide how attention grows. Batches have the same number of pieces at every length.

The time is the median of several rounds, in which all cells take their turns. The memory is the
most that torch's allocator had given out at one time, above what queries, keys, values and the
output's gradient take. On the CPU it is summed up from the profiler's record of each allocation and
release, also inside kernels. This is the same in every run, unlike the size of the process, because
malloc keeps some of what is freed.

On CUDA everything is in bfloat16; peers.py has torch's FlexAttention beside a window.
"""

from __future__ import annotations

import functools
import json
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
    attend,
)
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.io import command_line

WINDOWS = ["window(size=11)", "window(size=11, across=3)"]
FUSED, EXPLICIT = "full, fused", "full, single steps"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WARM_UP = 2

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]  # B H T D each


@dataclass
class Cell:
    """Holds one kind of attention at one length."""

    name: str
    attention: Attention
    inputs: list[Tensor]  # q, k, v: B H T D
    of_out: Tensor  # the gradient of the output

    @property
    def length(self) -> int:
        """Return the length of a sentence."""
        return self.of_out.size(2)

    @property
    def pieces(self) -> int:
        """Return the number of pieces in the batch."""
        return self.of_out.size(0) * self.length

    def step(self) -> None:
        """Run the attention forward and backward."""
        self.clear()
        self.attention(*self.inputs).backward(self.of_out)

    def clear(self) -> None:
        """Free the gradients of the inputs."""
        for x in self.inputs:
            x.grad = None


def cells_of_length(length: int, specifications: list[str], args) -> list[Cell]:
    """Return all kinds of attention at one length."""
    shape = AttentionShape(args.heads, args.width // args.heads, max_positions=length)
    batch = max(1, args.tokens // length)
    q, k, v, of_out = (heads_of_random_input(length, batch, shape) for _ in range(4))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    kinds = {FUSED: through_pipeline("", shape), EXPLICIT: through_pipeline("", shape, True)}
    kinds |= {s: through_pipeline(s, shape) for s in specifications}
    return [Cell(name, attention, inputs, of_out) for name, attention in kinds.items()]


def heads_of_random_input(length: int, batch: int, shape: AttentionShape) -> Tensor:
    """Return random numbers B H T D, which lie in memory as T B C, as the projections leave
    them."""
    dtype = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
    x = torch.randn(length, batch, shape.heads, shape.head_width, device=DEVICE, dtype=dtype)
    return x.permute(1, 2, 0, 3)


def through_pipeline(specification: str, shape: AttentionShape, weights=False) -> Attention:
    """Return the attention of a specification, with or without the weights."""
    mechanisms = AttentionSpecification(specification).build(0, shape)
    needs_tree = any(m.needs_tree for m in mechanisms)

    def attention(q, k, v):
        tree = random_trees(len(q), q.size(2)) if needs_tree else None
        ctx = AttentionContext(q.size(2), DEVICE, tree=tree)
        return attend(q, k, v, ctx, mechanisms, need_weights=weights)[0]

    return attention


@functools.cache
def parents_of_words(batch: int, words: int) -> Tensor:
    """Return random parents, B W; the parent of a word is one before it, the first is the root."""
    share = torch.rand(batch, words, generator=torch.Generator().manual_seed(1))
    return (share * torch.arange(words)).long().to(DEVICE)


def random_trees(batch: int, length: int) -> SourceTree:
    """Return new trees of sentences of one piece a word, as a batch brings them, without labels
    and without anything that is computed from them."""
    words = torch.arange(length, device=DEVICE).expand(batch, -1)
    return SourceTree(words, parents_of_words(batch, length), has_end=False)


def peaks_on_cuda(cells: list[Cell]) -> list[int]:
    """Return the peak of memory of each cell on a GPU."""
    peaks = []
    for cell in cells:
        cell.clear()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        cell.step()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    return peaks


def peaks_on_cpu(cells: list[Cell]) -> list[int]:
    """Return the peak of memory of each cell on the CPU."""
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
    """Return the events that the profiler has recorded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        record.export_chrome_trace(str(file))
        return json.loads(file.read_text(encoding="utf-8"))["traceEvents"]


def highest(changes: list[int]) -> int:
    """Return the greatest sum of allocations (positive) and releases (negative) so far."""
    return max(accumulate(changes))


def measure_speed(cells: list[Cell], rounds: int) -> list[float]:
    """Return the seconds of a step of each cell."""
    for cell in cells:
        for _ in range(WARM_UP):
            cell.step()
    steps = {f"{c.name}, {c.length:,} pieces": lambda _, c=c: seconds(c.step) for c in cells}
    return [statistics.median(taken) for taken in in_turns(steps, rounds).values()]


def rows_of(cells: list[Cell], taken: list[float], peaks: list[int]) -> list[dict]:
    """Return the figures of each cell for the table and the JSON."""
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
    """Return the options of the command line."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "specifications",
        nargs="*",
        default=WINDOWS,
        help="compare these mechanisms with full attention (default: two windows)",
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[256, 512, 1024, 2048, 4096],
        help="measure sentences with these numbers of pieces",
    )
    parser.add_argument("--tokens", type=int, default=4096, help="put so many pieces into a batch")
    parser.add_argument("--width", type=int, default=512, help="set the width of the layer")
    parser.add_argument("--heads", type=int, default=8, help="set the number of attention heads")
    parser.add_argument("--rounds", type=int, default=7, help="measure each cell so many times")
    parser.add_argument("--json", help="write the rows to this file, too")
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
