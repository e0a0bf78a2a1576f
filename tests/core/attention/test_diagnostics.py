"""What mechanisms say that they have learnt, against plain loops over the batch."""

import math

import pytest
import torch

from fairseq_posattn.core.attention.diagnostics import diagnostics_of, watch
from fairseq_posattn.core.attention.sample_batch import TREES, context, inputs
from fairseq_posattn.testing.layer import HEADS, attention


def found(specification: str, left: bool = False, watching: bool = True) -> dict:
    """The layer, and the values of its mechanism by their names, after a padded batch."""
    module = attention(specification)
    watch(module, watching)
    ctx = context(TREES, left=left)
    x = inputs(TREES, ctx, left)
    module.output(x, ctx)
    named = {d.name: d for d in diagnostics_of(module)}
    return {"module": module, "x": x, "ctx": ctx, "named": named}


def test_numbers_that_are_parameters():
    about = found("gaussian(heads=1|3)")
    [sigma] = about["named"].values()
    assert (sigma.place, sigma.mechanism, sigma.name) == ("mechanisms.gaussian", "gaussian", "σ")
    logs = about["module"].mechanisms["gaussian"].log_sigma.tolist()
    assert sigma.heads == [1, 3]
    assert sigma.values == pytest.approx([math.exp(value) for value in logs])
    gammas = found("temperature")["named"]
    assert list(gammas) == ["γ of queries", "γ of keys", "γ of values"]
    assert all(len(gamma.values) == HEADS for gamma in gammas.values())


def test_a_filter():
    about = found("convolved_2d")
    weight = about["module"].mechanisms["convolved_2d"].weight[:, 0].tolist()
    named = {name: d.values for name, d in about["named"].items()}
    for head in range(HEADS):
        nine = [weight[head][row][column] for row in range(3) for column in range(3)]
        assert named["middle of the filter"][head] == pytest.approx(nine[4])
        assert named["sum around it"][head] == pytest.approx(sum(nine) - nine[4])


@pytest.mark.parametrize("left", [False, True])
def test_centres_and_widths_that_are_predicted(left):
    """The mean over the real pieces of all sentences, one after the other."""
    about = found("local_soft", left)
    module, x, ctx = about["module"], about["x"], about["ctx"]
    mechanism = module.mechanisms["local_soft"]
    q = module.q_proj(x).transpose(0, 1)  # B T C
    offsets, widths = [[] for _ in range(HEADS)], [[] for _ in range(HEADS)]
    for sentence, (words, _) in enumerate(TREES):
        start = ctx.length - len(words) if left else 0
        for place in range(len(words)):
            hidden = torch.tanh(mechanism.hidden.weight @ q[sentence, start + place])
            for head, part in enumerate(hidden.split(len(hidden) // HEADS)):
                share = 1 / (1 + math.exp(-float(mechanism.centre[head] @ part)))
                offsets[head].append(len(words) * share - place)
                share = 1 / (1 + math.exp(-float(mechanism.width[head] @ part)))
                widths[head].append(len(words) * share)
    for name, numbers in (("centre minus query", offsets), ("width of the window", widths)):
        expected = [sum(of_head) / len(of_head) for of_head in numbers]
        assert about["named"][name].values == pytest.approx(expected)


def test_gates_of_a_layer():
    named = found("block")["named"]
    assert list(named) == ["gate of the blocks", "gate of the output"]
    for gate in named.values():
        assert gate.heads == [] and 0 < gate.values[0] < 1


def test_nothing_is_kept_unless_it_is_wanted():
    assert found("local_soft", watching=False)["named"] == {}
    assert found("block", watching=False)["named"] == {}


def test_watching_changes_nothing():
    for specification in ("local_soft", "local_hard", "block"):
        about = found(specification)
        plain = attention(specification)
        assert torch.equal(
            plain.output(about["x"], about["ctx"]), about["module"].output(about["x"], about["ctx"])
        )
