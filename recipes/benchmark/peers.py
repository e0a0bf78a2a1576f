"""Compare the speed of our attention and encoders with that of other packages.

    pip install local-attention
    python recipes/benchmark/peers.py --json peers.json

windows, in training (forward and backward) and in inference: local-attention, and torch's
FlexAttention. All must give the same output. FlexAttention is compiled, for which torch needs a C++
compiler; on a CPU, it has no backward pass, so it is only measured in inference. On a GPU,
everything is in bfloat16, FlexAttention is also trained, and flash-attn is measured, too.

encoders, in training and inference: stock fairseq's encoder, ours, and torch.nn.TransformerEncoder
with the same sizes, on batches with padding. torch's encoder receives embedded pieces; the others
also compute the embeddings, which takes much less time than the layers.

In each round, all cells of a group are measured in random order. Ratios state how many times faster
ours is: the median of the rounds, with a 95 % bootstrap interval over the rounds. Packages that are
not installed are left out.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from setting import (
    STOCK,
    Model,
    configure,
    in_turns,
    interval,
    make_corpus,
    report,
    seconds,
    set_up,
    times_faster,
)
from torch import Tensor, nn

from fairseq_posattn.core.attention import (
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    attend,
)
from fairseq_posattn.files import command_line

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# flash-attn supports half precision only.
DTYPE = torch.bfloat16 if DEVICE.type == "cuda" else torch.float32
SHAPE = AttentionShape(8, 64)
Step = Callable[[], object]
Windowed = Callable[[Tensor, Tensor, Tensor], Tensor]  # B H T D each


def ours(size: int) -> Windowed:
    mechanisms = AttentionSpecification(f"window(size={size})").build(0, SHAPE)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, AttentionContext(q.size(2), q.device), mechanisms)[0]

    return attention


def local_attention(size: int) -> Windowed | None:
    """Return the windowed attention of local-attention, or None if it is not installed.

    Its windows are blocks of queries, which attend to the previous, the same and the next block.
    `exact_windowsize` limits the number of keys on either side of a query to the block length.
    """
    if importlib.util.find_spec("local_attention") is None:
        return None
    from local_attention import LocalAttention

    return LocalAttention(
        size // 2, look_forward=1, exact_windowsize=True, use_rotary_pos_emb=False
    )


def flex_attention(size: int, length: int) -> Windowed | None:
    """Return torch's FlexAttention with a window mask, or None if torch is too old."""
    try:
        from torch.nn.attention.flex_attention import create_block_mask
        from torch.nn.attention.flex_attention import flex_attention as flex
    except ImportError:
        return None
    reach = size // 2

    def near(batch, head, query, key):
        return (query - key).abs() <= reach

    mask = create_block_mask(near, None, None, length, length, device=str(DEVICE))
    compiled = torch.compile(flex, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, block_mask=mask)


def flash_attention(size: int) -> Windowed | None:
    """Return the windowed attention of flash-attn, or None if it or a GPU is not available."""
    if DEVICE.type != "cuda" or importlib.util.find_spec("flash_attn") is None:
        return None
    from flash_attn import flash_attn_func

    reach = size // 2

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # B T H D
        return flash_attn_func(q, k, v, window_size=(reach, reach)).transpose(1, 2)

    return attention


def window_steps(size: int, length: int) -> dict[str, dict[str, Step]]:
    """Return the steps to time for one window size, by group and package."""
    length -= length % (size // 2)  # local-attention needs complete blocks
    shape, kind = (1, 8, length, 64), {"device": DEVICE, "dtype": DTYPE}
    q, k, v, of_out = (torch.randn(shape, **kind) for _ in range(4))
    found: dict[str, dict[str, Step]] = {"inference": {}, "training": {}}
    own = ours(size)
    others = {
        "local-attention": local_attention(size),
        "FlexAttention": flex_attention(size, length),
        "flash-attn": flash_attention(size),
    }
    near = 1e-4 if torch.float32 == DTYPE else 0.03
    for name, attention in {"ours": own, **others}.items():
        if attention is None:
            print(f"{name} is left out, because it is not available")
            continue
        with torch.no_grad():
            torch.testing.assert_close(attention(q, k, v), own(q, k, v), atol=near, rtol=near)
        found["inference"][name] = without_gradients(attention, q, k, v)
        if name != "FlexAttention" or DEVICE.type == "cuda":
            inputs = [x.clone().requires_grad_() for x in (q, k, v)]
            found["training"][name] = with_gradients(attention, inputs, of_out)
    return found


def without_gradients(function: Callable, *inputs) -> Step:
    def step() -> None:
        with torch.no_grad():
            function(*inputs)

    return step


def with_gradients(function: Callable, inputs: list[Tensor], of_out: Tensor) -> Step:
    def step() -> None:
        for x in inputs:
            x.grad = None
        function(*inputs).backward(of_out)

    return step


def encoder_steps(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, Step]]:
    """Return the steps to time for encoders, by group and package."""
    make_corpus(folder, options.sentences, 10_000, options.length)
    found: dict[str, dict[str, Step]] = {"inference": {}, "training": {}}
    for name, text in (  # with the same positions as stock fairseq: `sequence`
        ("ours", "sequence /"),
        ("ours, structural", "sequence + tree_depth / tree_relative + relative"),
        ("stock fairseq", STOCK),
    ):
        task, model, _ = set_up(configure(folder, Model.parse(text), "base", "--dropout", "0"))
        encoder = model.encoder.to(DEVICE)
        sample = next_batch(task, options.tokens)
        extra = {k: sample[k] for k in ("source_tree",) if k in sample}
        tokens = sample["src_tokens"]
        run = functools.partial(encoder, tokens, sample["src_lengths"], **extra)
        add_steps(found, name, encoder, run)
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    plain = nn.TransformerEncoder(layer, 6).to(DEVICE)
    vectors = torch.randn(*tokens.shape, 512, device=DEVICE)
    padding = tokens == task.source_dictionary.pad()
    add_steps(
        found,
        "torch.nn.TransformerEncoder",
        plain,
        lambda: {"encoder_out": [plain(vectors, src_key_padding_mask=padding)]},
    )
    return found


def next_batch(task, tokens: int) -> dict:
    iterator = task.get_batch_iterator(task.dataset("train"), max_tokens=tokens, seed=1)
    sample = next(iter(iterator.next_epoch_itr(shuffle=True)))["net_input"]
    return {k: v.to(DEVICE) if isinstance(v, Tensor) else v for k, v in sample.items()}


def add_steps(groups: dict[str, dict[str, Step]], name: str, module: nn.Module, run: Step) -> None:
    """Add the inference and training steps of an encoder to the groups."""

    def inference() -> None:
        module.eval()
        with torch.no_grad():
            run()

    def training() -> None:
        module.train()
        module.zero_grad()
        run()["encoder_out"][0].sum().backward()

    groups["inference"][name], groups["training"][name] = inference, training


def compare(group: str, steps: dict[str, Step], rounds: int) -> list[dict]:
    """Time the steps of a group in turn; return one row for each step other than ours."""
    for step in steps.values():
        for _ in range(2):
            step()
    taken = in_turns({name: lambda _, s=step: seconds(s) for name, step in steps.items()}, rounds)
    rows = []
    for name in steps:
        if name != "ours":
            ratio, low, high = times_faster(taken[name], taken["ours"])
            rows.append({"group": group, "beside": name, "ratio": ratio, "low": low, "high": high})
    return rows


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add, default = parser.add_argument, "(default: %(default)s)"
    add("--sizes", type=int, nargs="*", default=[11, 101], help="window sizes (default: 11 101)")
    add(
        "--window-length",
        type=int,
        default=4100,
        help=f"input length for window attention {default}",
    )
    add("--no-encoders", action="store_true", help="do not measure encoders")
    add("--no-windows", action="store_true", help="skip window attention")
    add("--tokens", type=int, default=1000, help=f"pieces per batch of encoders {default}")
    add("--length", type=int, default=30, help=f"mean sentence length for encoders {default}")
    add("--sentences", type=int, default=400, help=f"size of the corpus for encoders {default}")
    add("--rounds", type=int, default=15, help=f"number of measurements {default}")
    add("--json", help="also write the rows to this file")
    return parser.parse_args()


def main() -> None:
    """Measure all groups and print the table."""
    options = arguments()
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    rows = []
    for size in [] if options.no_windows else options.sizes:
        for group, steps in window_steps(size, options.window_length).items():
            rows += compare(f"window of {size}, {group}", steps, options.rounds)
    if not options.no_encoders:
        with tempfile.TemporaryDirectory() as folder:
            for group, steps in encoder_steps(Path(folder), options).items():
                rows += compare(f"encoder, {group}", steps, options.rounds)
    columns = {
        "what": lambda r: r["group"],
        "compared with": lambda r: r["beside"],
        "ours is faster": lambda r: f"{r['ratio']:.2f} ×",
        "95 % interval": interval,
    }
    report(rows, columns, options.json)


if __name__ == "__main__":
    command_line.run(main)
