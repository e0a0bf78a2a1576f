"""Measure the speed of the recurrent language models.

    python recipes/benchmark/lm_speed.py --json lm_speed.json

The rows of attention compare forward and backward passes, from the states h to the contexts c, with
a loop over the time steps. "loop" computes everything of a step in that step, over the states up to
it, as the equations are printed; "lean loop" runs the LSTM or the scores for all states at once,
and only the rest step by step. All give the same numbers, which is checked first.

The rows of models compare a training step (forward, loss, backward) of the whole models with that
of an LSTM without attention: the published one has 3 layers, another one has 2 layers like the
models with attention.

Everything runs in turn on one core in one run; each figure is the median of the ratios of the
rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.core.recurrent import (
    ContentAttention,
    PositionalAttention,
    PositionGenerator,
    RecurrentLanguageModel,
    RecurrentShape,
)
from fairseq_posattn.io import command_line
from fairseq_posattn.io.files import write_json


def positional_loop(
    attention: PositionalAttention, h: Tensor, lengths: Tensor, lean: bool = False
) -> Tensor:
    """Return the contexts of positional attention, one time step after the other."""
    compressed = compressed_states(attention.generator, h, lean)  # B T hidden
    mu, contexts = h.new_zeros(h.size(0)), []
    for t in range(h.size(1)):
        factors = attention.generator.to_mu(compressed[t]).relu()
        sigma = attention.generator.to_sigma(compressed[t]).sigmoid()
        blocks = torch.stack([mu, 1 / lengths, (t + 1) / lengths], dim=1)  # B 3
        mu = torch.maximum((factors * blocks).sum(dim=1), t / lengths)
        positions = torch.arange(t + 1) / lengths[:, None]  # B t+1
        spread = 2 * sigma**2 + attention.epsilon
        weights = torch.softmax(-((positions - mu[:, None]) ** 2) / spread, dim=1)
        contexts.append((weights[:, :, None] * h[:, : t + 1]).sum(dim=1))
    return torch.stack(contexts, dim=1)


def compressed_states(generator: PositionGenerator, h: Tensor, lean: bool) -> list[Tensor]:
    """Return the states of the small LSTM, T of B hidden."""
    if lean:
        return list(generator.compress(h)[0].unbind(dim=1))
    found, state = [], None
    for t in range(h.size(1)):
        compressed, state = generator.compress(h[:, t : t + 1], state)
        found.append(compressed[:, 0])
    return found


def content_loop(
    attention: ContentAttention, h: Tensor, lengths: Tensor, lean: bool = False
) -> Tensor:
    """Return the contexts of content attention, one time step after the other."""
    scores, contexts = attention.score(h) if lean else None, []
    for t in range(h.size(1)):
        of_memory = scores[:, : t + 1] if lean else attention.score(h[:, : t + 1])
        weights = torch.softmax(of_memory, dim=1)
        contexts.append((weights[:, :, None] * h[:, : t + 1]).sum(dim=1))
    return torch.stack(contexts, dim=1)


def attention_steps(options: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """Return what is timed: each attention, vectorised and as a loop."""
    h = torch.randn(options.batch, options.length, options.width, requires_grad=True)
    lengths = torch.full((options.batch,), options.length)
    gradient = torch.randn_like(h)
    steps = {}
    for name, kind, loop in (
        ("positional", PositionalAttention, positional_loop),
        ("content", ContentAttention, content_loop),
    ):
        attention = kind(options.width)
        steps[name] = lambda a=attention: a.attend(h, lengths)[0].backward(gradient)
        for what, lean in (("loop", False), ("lean loop", True)):
            torch.testing.assert_close(
                attention.attend(h, lengths)[0], loop(attention, h, lengths, lean)
            )
            steps[f"{name}, {what}"] = lambda a=attention, f=loop, lean=lean: f(
                a, h, lengths, lean
            ).backward(gradient)
    return steps


def model_steps(options: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """Return what is timed: a training step of each model."""
    tokens = torch.randint(4, options.vocabulary, (options.batch, options.length + 1))
    shapes = {
        "positional": {"attention": "positional"},
        "attentive": {"attention": "content"},
        "lstm, 3 layers": {"attention": "none", "layers": 3},
        "lstm, 2 layers": {"attention": "none"},
    }
    models = {
        name: RecurrentLanguageModel(
            RecurrentShape(options.vocabulary, padding=1, width=options.width, **shape)
        )
        for name, shape in shapes.items()
    }
    return {name: lambda m=model: training_step(m, tokens) for name, model in models.items()}


def training_step(model: nn.Module, tokens: Tensor) -> None:
    """Run a model forward and backward."""
    read, predicted = tokens[:, :-1], tokens[:, 1:]
    features, _, _ = model.features(read, torch.full((len(tokens),), read.size(1)))
    scores = model.scores(features)
    F.cross_entropy(scores.flatten(0, 1), predicted.flatten(), reduction="sum").backward()


def measure(steps: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each step in every round, after a round that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            start = time.process_time()  # another program on the machine must not count
            step()
            if number:
                seconds[name].append(time.process_time() - start)
    return seconds


def ratio(seconds: dict[str, list[float]], above: str, below: str) -> dict:
    """Return the median of the ratios, and the range of the middle half of them."""
    ratios = [a / b for a, b in zip(seconds[above], seconds[below], strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return {"what": f"{above} / {below}", "ratio": median, "low": low, "high": high}


def main() -> None:
    """Time attention and models, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32, help="put so many sentences into a batch")
    parser.add_argument("--length", type=int, default=35, help="give a sentence so many words")
    parser.add_argument("--width", type=int, default=400, help="set the width of the models")
    parser.add_argument(
        "--vocabulary", type=int, default=10001, help="set the number of different words"
    )
    parser.add_argument("--rounds", type=int, default=15, help="measure each model so many times")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    attention = measure(attention_steps(options), 4 * options.rounds)
    rows = [
        ratio(attention, f"{name}, {what}", name)
        for name in ("positional", "content")
        for what in ("loop", "lean loop")
    ]
    model = measure(model_steps(options), options.rounds)
    for name in ("positional", "attentive"):
        rows += [ratio(model, name, f"lstm, {layers} layers") for layers in (3, 2)]
    for seconds in (attention, model):
        for name, found in seconds.items():
            print(f"{name}: {1000 * statistics.median(found):.1f} ms")
    for row in rows:
        print(f"{row['what']}: {row['ratio']:.2f} ({row['low']:.2f} to {row['high']:.2f})")
    if options.json:
        write_json(options.json, rows, indent=1)


if __name__ == "__main__":
    command_line.run(main)
