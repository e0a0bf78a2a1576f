"""Measure the speed of the loader with trees as a ratio to fairseq's stock loader on the same data.

The loader reads trees for a model without labels of words, and for one with them.

python recipes/benchmark/loader_speed.py --json loader.json
"""

from __future__ import annotations

import collections
import tempfile
from pathlib import Path

from setting import (
    STOCK,
    Model,
    base_parser,
    configure,
    in_turns,
    interval,
    make_corpus,
    report,
    seconds,
    set_up,
    times_faster,
)

from fairseq_posattn.io import command_line

LOADERS = {"tree_relative": "with trees", "tree_labels": "with trees and labels"}


def batches(data: Path, specification: str, max_tokens: int):
    """Return the batches of an epoch, which are made anew for each pass."""
    cfg = configure(data, Model.parse(specification), "toy", "--max-tokens", str(max_tokens))
    task, *_ = set_up(cfg)
    return task.get_batch_iterator(task.datasets["train"], max_tokens=max_tokens)


def one_pass(iterator) -> float:
    """Return how long one pass over all batches takes."""
    epoch = iterator.next_epoch_itr(shuffle=False)
    return seconds(collections.deque, epoch, 0)  # which reads all and keeps nothing


def main() -> None:
    """Measure both loaders in turn and print the ratio."""
    parser = base_parser(__doc__.splitlines()[0])
    parser.add_argument(
        "--max-tokens", type=int, default=4000, help="put at most so many pieces into a batch"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), args.sentences, args.vocabulary, args.length)
        iterators = {s: batches(Path(folder), s, args.max_tokens) for s in (STOCK, *LOADERS)}
        for iterator in iterators.values():
            one_pass(iterator)
        passes = {s: lambda _, i=iterator: one_pass(i) for s, iterator in iterators.items()}
        taken = in_turns(passes, args.pairs)
    rows = []
    for specification, name in LOADERS.items():
        median, low, high = times_faster(taken[STOCK], taken[specification])
        row = {"loader": name, "sentences_per_second_ratio": median}
        rows.append({**row, "low": low, "high": high})
    columns = {
        "loader": lambda r: r["loader"],
        "sentences/s to stock": lambda r: f"{r['sentences_per_second_ratio']:.3f}",
        "95 % interval": interval,
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
