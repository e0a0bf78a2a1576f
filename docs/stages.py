"""Print a page of the documentation site: the stages of attention, with the methods to define (from
their docstrings) and the examples below.

python docs/stages.py
"""

from __future__ import annotations

import inspect

import torch
from torch import nn

from fairseq_posattn import attention
from fairseq_posattn.core.attention.supervised import ParentTargets, supervision

BEGIN = """\
# The stages of a mechanism

A mechanism derives from one or several stages. A layer computes the stages in the order of this \
page; within a stage, mechanisms act in the order of the specification. `ScoreBias`, `KeyBias` and \
`ScoreChange` count as one stage. q is B H Q D; k and v are B H K D ([shapes and `ctx`]\
(../your_own.md#shapes)); H are the mechanism's heads (in `KeyExpansion`: all heads). To use an \
example, put `@attention.register` above it.

[stages.py](../../fairseq_posattn/core/attention/stages.py) documents optional methods.

```python
import torch
from torch import nn

from fairseq_posattn import attention
from fairseq_posattn.core.attention.supervised import ParentTargets, supervision
```
"""


class Blend(attention.PreAttention):
    name = "blend"

    def make_parameters(self):
        self.mix = nn.Linear(self.shape.width, self.shape.width)

    def before(self, x, ctx):
        return x + self.mix(x).tanh()


class Sharpness(attention.QKVTransform):
    name = "sharpness"

    def make_parameters(self):
        self.factor = nn.Parameter(torch.ones(self.head_count, 1, 1))

    def transform(self, q, k, v, ctx):
        return q * self.factor, k, v


class Twins(attention.KeyExpansion):
    name = "twins"
    copies = 2

    def make_parameters(self):
        self.factor = nn.Parameter(torch.rand(self.shape.head_width))

    def expand(self, k, v):
        k = torch.cat([k, k * self.factor], dim=2)
        v = torch.cat([v, v * self.factor], dim=2)
        return k, v, torch.ones(1, k.size(1), 1, k.size(2), dtype=torch.bool, device=k.device)


class Capped(attention.ScoreChange):
    name = "capped"

    def change_scores(self, scores, q, ctx):
        return 5 * torch.tanh(scores / 5)


class Near(attention.ScoreMask):
    name = "near"

    def allowed(self, q, ctx):
        return ctx.distances.abs() <= 3  # Q K


class ToParent(attention.KeyBias, attention.Supervised):
    name = "to_parent"

    def make_parameters(self):
        self.form = nn.Parameter(torch.rand(self.shape.head_width, self.shape.head_width))

    def key_bias(self, q, k, ctx):
        return q @ self.form @ k.transpose(-1, -2)

    def supervise(self, scores, ctx):
        return None if ctx.tree is None else supervision(scores, ParentTargets.all(ctx.tree))


class Squared(attention.WeightChange):
    name = "squared"

    def change_weights(self, weights, q, ctx):
        squares = weights.square()
        return squares / squares.sum(dim=-1, keepdim=True).clamp(min=1e-6)


class Reach(attention.ValueTerm):
    name = "reach"

    def make_parameters(self):
        self.far = nn.Parameter(torch.rand(self.head_count, 1, self.shape.head_width))

    def value_term(self, weights, ctx):
        mean = (weights * ctx.distances).sum(dim=-1, keepdim=True)  # B H Q 1
        return mean * self.far


class Gate(attention.PostAttention):
    name = "gate"

    def make_parameters(self):
        self.gate = nn.Linear(self.shape.width, self.shape.width)

    def replace(self, x, out, ctx):
        return self.gate(x).sigmoid() * out


STAGES: dict[type[attention.Mechanism], type[attention.Mechanism] | str] = {
    attention.PreAttention: Blend,
    attention.QKVTransform: Sharpness,
    attention.KeyExpansion: Twins,
    attention.ScoreBias: "The [README](../../README.md#your-own-mechanism) shows an example.",
    attention.KeyBias: "[Supervised](#supervised) shows an example.",
    attention.ScoreChange: Capped,
    attention.ScoreMask: Near,
    attention.Supervised: ToParent,
    attention.WeightChange: Squared,
    attention.ValueTerm: Reach,
    attention.PostAttention: Gate,
}
EXAMPLES = [example for example in STAGES.values() if not isinstance(example, str)]


def section(stage: type[attention.Mechanism]) -> str:
    """Return a stage with the methods that a mechanism must define, and its example."""
    example = STAGES[stage]
    lines = [f"## {stage.__name__}", "", sentences(stage), ""]
    for name, method in vars(stage).items():
        if inspect.isfunction(method) and "NotImplementedError" in inspect.getsource(method):
            given = ", ".join(list(inspect.signature(method).parameters)[1:])  # without self
            lines += [f"- `{name}({given})`: {sentences(method)}"]
    if isinstance(example, str):
        return "\n".join([*lines, "", example, ""])
    return "\n".join([*lines, "", "```python", inspect.getsource(example).rstrip(), "```", ""])


def sentences(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split())


def page() -> str:
    return "\n".join([BEGIN, *map(section, STAGES)])


if __name__ == "__main__":
    print(page(), end="")
