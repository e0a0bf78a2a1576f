"""Run attention and models on a pretended accelerator, and print what goes wrong there as JSON.

    python tests/support/pretended_device.py layers
    python tests/support/pretended_device.py models DATA

Tensors have a device, a size and a type, but no numbers (torch's FakeTensorMode). So a tensor on a
wrong device is an error, and so is data that is sent there in the middle of the work. A place at
which a program would wait for the device to read a number is noted, and the number taken for 1.

torch's way to pretend is private. Where it is absent, the program ends with exit code 3.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

try:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
except ImportError:
    sys.exit(3)

from fairseq_posattn.core.attention import MECHANISMS, AttentionContext
from fairseq_posattn.core.attention.sample_batch import TREES, WIDTH, context
from fairseq_posattn.core.source_tree import SourceTree
from fairseq_posattn.testing.layer import attention

DEVICE = "pretended"


class Watch(TorchDispatchMode):
    """Notes where numbers are read from the device."""

    def __init__(self):
        super().__init__()
        self.places: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ == "_local_scalar_dense" and args[0].device.type == DEVICE:
            self.places.append(place())
            return 1
        return func(*args, **(kwargs or {}))


def place() -> str:
    """Return the innermost line of this package, or else of fairseq, that is at work."""
    frames = [f for f in traceback.extract_stack() if "/tests/" not in f.filename]
    for package in ("fairseq_posattn/", "fairseq/"):
        inside = [f for f in frames if package in f.filename]
        if inside:
            file = inside[-1].filename.rpartition(package)[2]
            return f"{package}{file}: {inside[-1].line}"
    return "?"


def pretended(x: Tensor) -> Tensor:
    """Return a tensor of the same size and type on the device."""
    return torch.empty(x.shape, dtype=x.dtype, device=DEVICE)


def move(module: nn.Module) -> nn.Module:
    """Put the parameters of a module on the device, those that are shared once."""
    moved: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                new = moved.setdefault(id(parameter), nn.Parameter(pretended(parameter)))
                part._parameters[name] = new
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else pretended(buffer)
    return module


def moved_tree(tree: SourceTree) -> SourceTree:
    """Return a tree on the device."""
    values = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    return SourceTree(
        **{k: pretended(v) if isinstance(v, Tensor) else v for k, v in values.items()}
    )


def specifications() -> Iterator[str]:
    """Yield every mechanism with all its examples, on all heads and on some."""
    for name, mechanism in MECHANISMS.items():
        for example in mechanism.examples:
            yield f"{name}({example})@0"
            if mechanism.accepts_heads:
                yield f"{name}({', '.join([*filter(None, [example]), 'heads=0|2'])})@0"


SETTINGS = (  # weights are asked for, training, padding stands before the sentences
    (False, True, True),
    (True, True, False),
    (False, False, False),
)


def of_layers(mode: FakeTensorMode, watch: Watch) -> Iterator[tuple[str, str]]:
    """Yield each case with what went wrong in it."""
    for specification in specifications():
        for weights, training, left in SETTINGS:
            case = f"{specification}, weights={weights}, training={training}, left={left}"
            module = attention(specification).float().train(training)
            own = context(TREES[:3], left=left)
            with mode, watch:
                work = partial(run, module, *sample(own, left), weights)
                yield from attempt(case, watch, work)


def sample(own: AttentionContext, left: bool) -> tuple[Tensor, AttentionContext]:
    """Return the input of a layer and its context, as it is after the wait of its batch."""
    x = torch.empty(own.length, len(TREES[:3]), WIDTH, device=DEVICE, requires_grad=True)
    ctx = AttentionContext(own.length, x.device, pretended(own.real), moved_tree(own.tree))
    ctx.brackets = pretended(own.brackets)
    ctx.nothing_allowed, ctx.padded_before, ctx.longest = False, left, own.length
    return x, ctx


def run(module: nn.Module, x: Tensor, ctx: AttentionContext, weights: bool) -> None:
    """Go forward and backward through a layer."""
    out, _ = move(module)(x, ctx, weights)
    out.sum().backward()
    if x.grad is None or x.grad.device.type != DEVICE:
        raise RuntimeError("the gradient is not on the device")


def attempt(case: str, watch: Watch, action) -> Iterator[tuple[str, str]]:
    """Do something, and yield the error, or the places at which it waited."""
    watch.places.clear()
    try:
        action()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = [f for f in frames if "fairseq" in f.filename or __file__ in f.filename][-1]
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        yield case, f"{last.filename.rpartition('/')[2]}: {last.line}: {reason}"
    for found in watch.places:
        yield case, f"waits: {found}"


def of_models(mode: FakeTensorMode, watch: Watch, data: str) -> Iterator[tuple[str, str]]:
    """Yield what a training step of whole models waits for, the stock one first."""
    from support.in_process import batch, build

    # fairseq asks for a size in a way that makes a tensor of it, for another program than torch
    torch.onnx.operators.shape_as_tensor = lambda x: tuple(x.shape)
    models = {
        "stock": ["--task", "translation", "--arch", "transformer"],
        "sequence": [],
        "structural": [
            *("--encoder-positions", "sequence + tree_depth"),
            *("--encoder-attention", "relative + tree_relative"),
        ],
        "decoder": ["--decoder-attention", "relative + window(heads=0|2)"],
        "across": ["--cross-attention", "window(heads=0|2) + tree_depth_bias"],
        "supervised": [
            *("--encoder-attention", "tree_supervised(scores=biaffine)"),
            *("--criterion", "tree_supervised_cross_entropy"),
        ],
    }
    for name, options in models.items():
        task, model, cfg = build(data, *options)
        criterion = task.build_criterion(cfg.criterion)
        real = batch(task)
        with mode, watch:
            yield from attempt(name, watch, partial(step, model, criterion, on_device(real)))


def step(model: nn.Module, criterion: nn.Module, sample: dict) -> None:
    """Take a training step up to the gradients."""
    loss, _, _ = criterion(move(model).train(), sample)
    loss.backward()


def on_device(value):
    """Return a batch of fairseq's on the device."""
    if isinstance(value, Tensor):
        return pretended(value)
    return {k: on_device(v) for k, v in value.items()} if isinstance(value, dict) else value


def main() -> None:
    """Print the list of what went wrong, each with its case."""
    _setup_privateuseone_for_python_backend(DEVICE)
    mode, watch = FakeTensorMode(), Watch()
    what, *data = sys.argv[1:]
    found = of_models(mode, watch, *data) if what == "models" else of_layers(mode, watch)
    print(json.dumps(list(found)), flush=True)
    os._exit(0)  # torch's thread for the pretended device may abort when Python ends


if __name__ == "__main__":
    main()
