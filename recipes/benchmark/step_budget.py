r"""Print where the time of a training step goes, in per cent, for the stock Transformer and others.

    python recipes/benchmark/step_budget.py --vocabulary 32000 \
        'sequence + tree_depth / relative + tree_relative' 'stock; --optimizer fused_adam'

Specifications are those of train_speed.py. The time is that of torch's operators themselves, by its
profiler, which slows small operators down more than large ones; what is left is Python. Forward and
backward pass are counted together.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

import torch
from setting import STOCK, make_corpus, models_parser, report
from torch.autograd import profiler_util
from torch.profiler import ProfilerActivity, profile, record_function
from train_speed import WARM_UP, Training

from fairseq_posattn.io import command_line

OPTIMIZER = "optimizer"  # the name of what is recorded around its step
PARTS = {  # patterns of the names of operators; the first that fits counts
    "matrix products": r"mm|matmul|scaled_dot|flash",
    "dropout": r"dropout|bernoulli",
    "softmax and loss": r"softmax|Smoothed|logsumexp|^exp_?$|gather|scatter",
    "norms": r"layer_norm",
    "copies": r"copy|clone|contiguous|^cat$|stack|fill|zero|index|select",
    "embeddings": r"embedding",
}
REST = "sums, products and activations"


class Budget:
    """Adds up the time of the operators of some training steps."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def add(self, events: list[profiler_util.FunctionEvent]) -> None:
        """Add the events of a profile."""
        for event in events:
            if event.name != OPTIMIZER:
                self.seconds[part_of(event)] += event.self_cpu_time_total / 1e6

    def shares(self, total: float) -> dict[str, float]:
        """Return the share of each part in all the time, with what is left for Python."""
        found = {name: self.seconds[name] / total for name in [OPTIMIZER, *PARTS, REST]}
        return {**found, "outside of operators": max(0.0, 1 - sum(found.values()))}


def part_of(event: profiler_util.FunctionEvent) -> str:
    """Return the part of a step that an operator belongs to."""
    above = event
    while above is not None:
        if above.name == OPTIMIZER:
            return OPTIMIZER
        above = above.cpu_parent
    name = event.name.removeprefix("aten::")
    return next((part for part, names in PARTS.items() if re.search(names, name)), REST)


def measure(data: Path, specification: str, args) -> dict[str, float]:
    """Return the shares of a training step."""
    training = Training(data, specification, args)
    optimizer = training.trainer.optimizer
    step = optimizer.step

    def recorded(*arguments, **options):
        with record_function(OPTIMIZER):
            return step(*arguments, **options)

    optimizer.step = recorded
    for k in range(WARM_UP):
        training.step(k)
    budget, total = Budget(), 0.0
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        for k in range(args.pairs):
            total += training.step(k)
    budget.add(list(profiled.events()))
    return budget.shares(total)


def main() -> None:
    """Measure all models, and print their budgets side by side."""
    parser = models_parser(__doc__.splitlines()[0], [], "measure these models beside the stock one")
    parser.add_argument(
        "--max-tokens", type=int, default=1000, help="put at most so many pieces into a batch"
    )
    args = parser.parse_args()
    args.fairseq = []
    torch.set_num_threads(1)
    names = [STOCK, *args.specifications]
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), args.sentences, args.vocabulary, args.length)
        shares = {name: measure(Path(folder), name, args) for name in names}
    rows = [
        {"part": part, **{name: found[part] for name, found in shares.items()}}
        for part in shares[STOCK]
    ]
    columns = {"part of the step": lambda row: row["part"]}
    for name in names:
        columns[name] = lambda row, name=name: f"{100 * row[name]:.1f} %"
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
