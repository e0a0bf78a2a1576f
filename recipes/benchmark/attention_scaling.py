"""Measure time and memory of attention against the length of a sentence.

    python recipes/benchmark/attention_scaling.py --json scaling.json --plot scaling.png

Only the attention is measured, from queries, keys and values (laid out as a layer has them) to its
output and back to their gradients. The projections around it cost the same at every length and
would hide how attention grows. Batches have the same number of pieces at every length.

The time is the median of several rounds, in which all cells take their turns. The memory is the
most that torch's allocator had given out at one time, above what queries, keys, values and the
output's gradient take. On the CPU it is summed up from the profiler's record of each allocation and
release, also inside kernels. This is the same in every run, unlike the size of the process, because
malloc keeps some of what is freed.

On CUDA everything is in bfloat16, and torch's FlexAttention stands beside each window.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
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
from fairseq_posattn.core.attention.window import Window, across_heads
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.io import command_line
from fairseq_posattn.io.atomic import replaced_whole

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
        for x in self.inputs:
            x.grad = None
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
    if DEVICE.type == "cuda":
        kinds |= flex_windows(specifications, shape, length)
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


def flex_windows(specifications: list[str], shape: AttentionShape, length: int):
    """Return the windows among the mechanisms, computed by torch's FlexAttention."""
    try:
        from torch.nn.attention.flex_attention import flex_attention
    except ImportError:
        print(f"torch {torch.__version__} has no FlexAttention, which came with 2.5", flush=True)
        return {}
    compiled = torch.compile(flex_attention, dynamic=False)
    found = {}
    for specification in specifications:
        mechanisms = AttentionSpecification(specification).build(0, shape)
        if len(mechanisms) == 1 and isinstance(mechanisms[0], Window):
            name = f"{specification}, FlexAttention"
            found[name] = flex_window(compiled, mechanisms[0], shape.heads, length)
    return found


def flex_window(flex, window: Window, heads: int, length: int) -> Attention:
    """Return a window as FlexAttention computes it."""
    from torch.nn.attention.flex_attention import create_block_mask

    reach, copies = window.options.size // 2, window.copies

    def seen(_, head, query, key):
        neighbour = head + key // length - copies // 2
        near = (query - key % length).abs() <= reach
        return near & (neighbour >= 0) & (neighbour < heads)

    mask = create_block_mask(seen, None, heads, length, copies * length, device=DEVICE.type)

    def attention(q, k, v):
        k, v = (across_heads(x, copies).flatten(2, 3) for x in (k, v))  # B H N·T D
        return flex(q, k, v, block_mask=mask)

    return attention


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


def plot(rows: list[dict], file: str) -> None:
    """Draw time and memory against the length."""
    # fairseq turns all messages of matplotlib on
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    time_panel, memory_panel = figure.subplots(1, 2)
    draw(time_panel, rows, "time per token, µs", lambda r: r["microseconds_per_token"])
    draw(memory_panel, rows, "peak memory, MB", lambda r: r["peak_memory"] / 1e6)
    lines, names = time_panel.get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=4)
    with replaced_whole(file) as partial:
        figure.savefig(partial, dpi=150)


def draw(axes, rows: list[dict], label: str, value: Callable) -> None:
    """Draw one figure of all kinds of attention into one panel."""
    from matplotlib.ticker import LogFormatter

    for name in dict.fromkeys(r["attention"] for r in rows):
        points = [r for r in rows if r["attention"] == name]
        axes.plot([r["length"] for r in points], list(map(value, points)), "o-", label=name)
    lengths = sorted({r["length"] for r in rows})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, map(str, lengths))
    axes.yaxis.set_major_formatter(LogFormatter())
    axes.yaxis.set_minor_formatter(LogFormatter())
    axes.set(xlabel="pieces of a sentence", ylabel=f"{label} (forward and backward)")
    axes.grid(alpha=0.3)


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
    parser.add_argument("--plot", help="draw the rows into this PNG file")
    args = parser.parse_args()
    if args.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install -e '.[lab]'")
    return args


def main() -> None:
    """Measure all cells, print the table and draw the figure."""
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
    if args.plot:
        plot(rows, args.plot)


if __name__ == "__main__":
    command_line.run(main)
