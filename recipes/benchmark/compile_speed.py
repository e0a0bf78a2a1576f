"""Measure encoders compiled by torch.compile as ratios to the same encoders as they are.

    python recipes/benchmark/compile_speed.py --json compile.json

Each encoder is compiled by inductor in one graph for all sizes, which torch needs a C++ compiler
for, and gives the same vectors, which is checked first. Batches have padding and other lengths each
time. Both take turns; the time to compile is given by itself. The interval is a bootstrap interval
of the median (95 %).
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from setting import (
    Model,
    configure,
    in_turns,
    interval,
    make_corpus,
    models_parser,
    report,
    seconds,
    set_up,
    times_faster,
)
from torch import Tensor

from fairseq_posattn.io import command_line

DEFAULT = [
    "sequence /",
    "sequence + tree_depth / relative + tree_relative",
    "window@0-2",
    "none / alibi",
    "none / rope",
]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Encode = Callable[..., Tensor]


def batches_of(task, args) -> list[tuple[Tensor, ...]]:
    """Return the sources of some batches, with their trees if the model reads them."""
    iterator = task.get_batch_iterator(task.dataset("train"), max_tokens=args.max_tokens, seed=1)
    epoch = iterator.next_epoch_itr(shuffle=True)
    inputs = [batch["net_input"] for _, batch in zip(range(args.batches), epoch, strict=False)]
    names = ("src_tokens", "source_tree")
    return [tuple(one[name].to(DEVICE) for name in names if name in one) for one in inputs]


def run(encode: Encode, arguments: tuple[Tensor, ...], trained: bool) -> None:
    """Encode one batch, forward or forward and backward."""
    with torch.set_grad_enabled(trained):
        out = encode(*arguments)
        if trained:
            out.sum().backward()


def measure(folder: Path, specification: str, args) -> list[dict]:
    """Return a row for inference and one for training."""
    task, model, _ = set_up(configure(folder, Model.parse(specification), args.size))
    encoder = model.encoder.to(DEVICE).eval()  # without dropout, so that both do the same

    def plain(tokens: Tensor, tree: Tensor | None = None) -> Tensor:
        return encoder(tokens, source_tree=tree)["encoder_out"][0]

    batches, rows = batches_of(task, args), []
    for trained in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(plain, fullgraph=True, dynamic=True)
        began = time.perf_counter()
        for arguments in batches:
            with torch.set_grad_enabled(trained):
                torch.testing.assert_close(
                    compiled(*arguments), plain(*arguments), atol=1e-4, rtol=1e-3
                )
            run(compiled, arguments, trained)
        spent = time.perf_counter() - began
        candidates = {
            name: lambda k, e=encode, t=trained: seconds(run, e, batches[k % len(batches)], t)
            for name, encode in (("plain", plain), ("compiled", compiled))
        }
        taken = in_turns(candidates, args.pairs)
        ratio, low, high = times_faster(taken["plain"], taken["compiled"])
        row = {"specification": specification, "trained": trained, "ratio": ratio}
        rows.append({**row, "low": low, "high": high, "seconds_to_compile": spent})
    return rows


def main() -> None:
    """Measure all encoders and print the ratios."""
    parser = models_parser(
        __doc__.splitlines()[0],
        DEFAULT,
        "measure the encoders of these specifications (default: five of them)",
    )
    parser.add_argument(
        "--max-tokens", type=int, default=1000, help="put at most so many pieces into a batch"
    )
    args = parser.parse_args()
    logging.disable(logging.INFO)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), args.sentences, args.vocabulary, args.length)
        for specification in args.specifications:
            print(f"{specification} ...", flush=True)
            rows += measure(Path(folder), specification, args)
    columns = {
        "encoder": lambda r: r["specification"],
        "what": lambda r: "forward and backward" if r["trained"] else "forward",
        "compiled is faster": lambda r: f"{r['ratio']:.3f} ×",
        "95 % interval": interval,
        "to compile": lambda r: f"{r['seconds_to_compile']:.0f} s",
    }
    report(rows, columns, args.json)


if __name__ == "__main__":
    command_line.run(main)
