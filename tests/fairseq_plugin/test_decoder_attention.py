"""What only the decoder's self-attention does; test_decoder_mechanisms.py has the rest."""

import math
from unittest import mock

import pytest
import torch
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase

from fairseq_posattn.core.attention import MECHANISMS, window
from fairseq_posattn.core.specification import SpecificationError
from fairseq_posattn.fairseq_plugin.models.causal_attention import CausalSelfAttention
from support.decoding import (
    SENTENCES,
    SHORT,
    assert_causal,
    assert_steps_equal_the_whole,
    encoded,
    targets,
)

LONG_WINDOWS = ["window(size=5)", "window(size=3, across=3) + temperature", "window(size=75)@0"]
SAFE = {name for name, mechanism in MECHANISMS.items() if mechanism.causal_safe}
FAR = 300  # steps
SEVERAL = "window(size=3, across=3) + relative(max=2) + direct_relative + alibi + rope"


@pytest.mark.parametrize("specification", ["relative", ""])
def test_hypotheses_that_stay_are_not_copied(specification, model_of):
    task, model = model_of("decoder_attention", specification)
    decoder, kept, tokens = model.decoder.eval(), {}, targets(task, SHORT)
    with torch.no_grad():
        decoder(tokens[:, :1], encoder_out=encoded(task, model, SENTENCES), incremental_state=kept)
    keys = decoder.layers[-1].self_attn._get_input_buffer(kept)["prev_key"]
    for order, same in (
        ([0, 1, 2, 3], True),
        ([0, 1, 3, 2], False),
        ([0, 1, 2], False),
        ([0], False),
    ):
        expected = keys[order]
        decoder.reorder_incremental_state_scripting(kept, torch.tensor(order))
        found = decoder.layers[-1].self_attn._get_input_buffer(kept)["prev_key"]
        assert torch.equal(found, expected) and (found is keys) == same
        keys = found


@pytest.mark.parametrize("specification", LONG_WINDOWS)
def test_long_targets(specification, model_of, monkeypatch):
    """Windows work block by block on them, but not in steps."""
    blockwise = mock.Mock(wraps=window.windowed_attention)
    monkeypatch.setattr(window, "windowed_attention", blockwise)
    task, model = model_of("decoder_attention", specification, decoder_layers=1)
    assert_causal(task, model.train(), FAR)
    assert_steps_equal_the_whole(task, model, targets(task, FAR), {(0, 3, 3, 3): [0, 3, 1, 1]})
    assert blockwise.call_count == 3


def test_a_mechanism_in_one_layer(model_of):
    _, model = model_of("decoder_attention", "relative@1")
    first, second = model.decoder.layers
    assert type(first) is TransformerDecoderLayerBase
    assert isinstance(second.self_attn, CausalSelfAttention)
    assert list(second.self_attn.mechanisms) == ["relative"]
    first.self_attn.dropout_module = second.self_attn.dropout_module  # both MultiheadAttention
    names = [[getattr(m, "module_name", "") for m in x.children()] for x in (first, second)]
    assert names[0] == names[1]  # --retain-dropout-modules reaches both


@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - SAFE))
def test_what_looks_ahead_is_refused(name, model_of):
    with pytest.raises(SpecificationError) as refusal:
        model_of("decoder_attention", f"relative + {name}")
    reason = "reads trees" if MECHANISMS[name].needs_tree else "depends on words"
    if name in ("block", "cnn", "tree_gcn"):
        reason = "acts before or after the attention"
    assert f"'{name}' {reason}" in str(refusal.value)
    assert ", ".join(sorted(SAFE)) in str(refusal.value)


# the attention behind fairseq's interface


@pytest.mark.parametrize("specification", [SEVERAL, "window(size=3, across=3)", "relative"])
def test_weights(specification, model_of):
    attention = model_of("decoder_attention", specification)[1].decoder.layers[0].self_attn.eval()
    x, padding = torch.randn(7, 3, 32), torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = True
    given = {"attn_mask": torch.full((7, 7), -math.inf).triu(1), "key_padding_mask": padding}
    out, none = attention(x, x, x, **given)
    same, weights = attention(x, x, x, need_head_weights=True, **given)
    _, mean = attention(x, x, x, need_weights=True, **given)
    assert none is None and weights.shape == (4, 3, 7, 7)
    torch.testing.assert_close(same[~padding.T], out[~padding.T])
    torch.testing.assert_close(weights.mean(0), mean)
    assert (weights.triu(1) == 0).all() and (weights[:, 1, :, 5:] == 0).all()
    assert (weights.tril(-2) == 0).all() == ("window" in specification)
    torch.testing.assert_close(weights.sum(-1)[:, ~padding], torch.ones(4, 19))


@pytest.mark.parametrize("given", [2, 3])
def test_a_state_of_before_may_be_handed_in(given, model_of):
    """fairseq's `prev_self_attn_state` holds keys, values and perhaps their padding."""
    _, model = model_of("decoder_attention", SEVERAL)
    layer, x, memory = model.decoder.layers[0].eval(), torch.randn(7, 3, 32), {}
    for step in range(6):
        layer(x[step : step + 1], incremental_state=memory)
    # fairseq has no public name for what a step keeps
    before = layer.self_attn._get_input_buffer(memory)
    assert before["prev_key"].shape == (3, 4, 6, 8)  # B H S D, as in fairseq
    padding = torch.zeros(3, 6, dtype=torch.bool)
    state = [before["prev_key"].clone(), before["prev_value"].clone(), padding][:given]
    expected = layer(x[6:], incremental_state=memory)[0]
    handed_in = layer(x[6:], incremental_state={}, prev_self_attn_state=state)[0]
    torch.testing.assert_close(handed_in, expected)
