"""Linear layers in eight bits translate nearly as before, and nothing but translation has them."""

import pytest
from torch import nn

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.models.int8 import quantize
from support.in_process import build, generate, hypotheses_and_scores, train


def scores(output: str) -> dict[int, tuple[str, float]]:
    found = hypotheses_and_scores(output)
    return {number: (text, float(score)) for number, (text, score) in found.items()}


@pytest.mark.parametrize("kind", ["tree_model", "stock_model"])
def test_translations_stay_nearly_the_same(request, toy_data, kind):
    checkpoint = request.getfixturevalue(kind)
    before, now = (
        scores(generate(toy_data, checkpoint, *more).output) for more in ([], ["--int8"])
    )
    assert before.keys() == now.keys() and before != now
    same = [number for number in before if before[number][0] == now[number][0]]
    assert len(same) > len(before) / 3  # models that are hardly trained are undecided
    assert all(abs(before[number][1] - now[number][1]) < 0.1 for number in same)
    means = [sum(score for _, score in one.values()) / len(one) for one in (before, now)]
    assert abs(means[0] - means[1]) < 0.1


def test_all_linear_layers_are_quantised(toy_data):
    model = build(toy_data, "--arch", "posattn_structural_tiny").model.eval()
    linear = sum(isinstance(module, nn.Linear) for module in model.modules())
    quantize(model)
    assert linear > 10 and not any(type(module) is nn.Linear for module in model.modules())


def test_what_int8_is_not_for(tree_model, toy_data, tmp_path):
    refused = generate(toy_data, tree_model, "--int8", "--score-reference", check=False)
    assert (
        "--int8 cannot be combined with --score-reference; use only one of them" in refused.message
    )
    refused = train(toy_data, tmp_path / "run", "--max-update", 1, "--int8", check=False)
    assert "--int8 applies to translation only; omit it in training" in refused.message
    assert not list(tmp_path.glob("run/*.pt"))
    with pytest.raises(InputError, match="--int8 works on a CPU only; add --cpu"):
        quantize(nn.Linear(2, 2, device="meta"))
