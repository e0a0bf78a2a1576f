r"""Count, without a GPU, the operators of a training step that would launch a GPU kernel.

    python recipes/benchmark/operators.py structural 'tree_gcn@0'

Specifications are written as for `train_speed.py`. The model has six small layers, because counts
do not depend on sizes, and is trained in bfloat16. Views and allocations count as 0, operators
that first copy or clear their result as 2, and each fused attention kernel as 1.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import setting
import torch
import torch.nn.functional as F
from setting import STOCK, make_corpus, quiet
from torch.utils._python_dispatch import TorchDispatchMode
from train_speed import DEFAULT, Training

from fairseq_posattn.files import command_line

FREE = "empty empty_like new_empty empty_strided new_empty_strided detach _unsafe_view lift_fresh"
FREE += " set_ resize_ _local_scalar_dense unbind promote_types scalar_tensor"
TWICE = "masked_fill scatter_add index_put index_add select_backward slice_backward baddbmm"
TWICE += " constant_pad_nd"
attention = F.scaled_dot_product_attention


class Counter(TorchDispatchMode):
    """Counts operators while it is active."""

    found, fused = 0, False

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator._schema.name.removeprefix("aten::")
        if not (self.fused or operator.is_view or name in FREE.split()):
            # the backward pass of a look-up scatters in place
            backward = torch._C._current_autograd_node() is not None
            self.found += 2 if name in TWICE.split() and not (name[:3] == "sca" and backward) else 1
        return operator(*args, **(kwargs or {}))


class OneKernel(torch.autograd.Function):
    """Counts the fused attention kernel once in each direction."""

    counter: Counter

    @staticmethod
    def forward(ctx, q, k, v, mask, dropout):
        ctx.save_for_backward(q, k, v, mask)
        ctx.dropout = dropout
        return OneKernel.count(attention, q, k, v, mask, dropout)

    @staticmethod
    def backward(ctx, gradient):
        inputs = [None if x is None else x.detach() for x in ctx.saved_tensors]
        needed = zip(inputs, ctx.needs_input_grad[:4], strict=True)
        learnt = [x.requires_grad_() for x, on in needed if on]

        def gradients():
            with torch.enable_grad():
                out = attention(*inputs, ctx.dropout)
            return iter(torch.autograd.grad(out, learnt, gradient))

        found = OneKernel.count(gradients)
        return tuple(next(found) if on else None for on in ctx.needs_input_grad)

    @classmethod
    def count(cls, function, *inputs):
        cls.counter.found += 1
        cls.counter.fused = True
        result = function(*inputs)
        cls.counter.fused = False
        return result


def counted_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False):
    assert not is_causal
    return OneKernel.apply(q, k, v, attn_mask, dropout_p)


def count(data: Path, specification: str) -> tuple[int, int, int]:
    """Return the numbers of operators in the forward pass, backward pass and optimizer."""
    options = argparse.Namespace(size="operators", max_tokens=300, batches=2, fairseq=["--bf16"])
    training = Training(data, specification, options)
    training.step(0)
    OneKernel.counter = counter = Counter()
    optimizer, marks = training.trainer.optimizer, []
    backward = optimizer.backward

    def marked(loss):
        marks.append(counter.found)
        backward(loss)
        marks.append(counter.found)

    optimizer.backward = marked
    F.scaled_dot_product_attention = counted_attention
    with counter:
        training.trainer.train_step([training.batches[1]])
    F.scaled_dot_product_attention = attention
    return marks[0], marks[1] - marks[0], counter.found - marks[1]


def main() -> None:
    """Print a table of all counts, and their ratio to those of stock fairseq."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("specifications", nargs="*", default=["structural", *DEFAULT])
    chosen = parser.parse_args().specifications
    quiet()
    setting.SIZES["operators"] = (64, 128, 8, 6)
    print(
        "| specification | forward | backward | optimizer | ratio to stock |\n|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder), 200, 100, 20)
        stock = count(Path(folder), STOCK)
        for specification in [STOCK, *chosen]:
            found = count(Path(folder), specification)
            ratio = f"{sum(found) / sum(stock):.3f}"
            print(f"| {' | '.join([specification, *map(str, found), ratio])} |", flush=True)


if __name__ == "__main__":
    command_line.run(main)
