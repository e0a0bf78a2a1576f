"""What only attention to the source does; test_decoder_mechanisms.py has the rest."""

import numpy as np
import pytest
import torch

from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.attention import decoder_attention
from support.decoding import (
    SENTENCES,
    SHORT,
    assert_steps_equal_the_whole,
    encoded,
    targets,
    with_option,
)
from support.in_process import batch, build, train


def test_a_walk_in_a_target_without_brackets(model_of):
    """It goes on from the step before."""
    task, model = model_of("cross_attention", "tree_walk")
    tokens = targets(task, SHORT)
    with torch.no_grad():
        walked = model.eval().decoder(tokens, encoder_out=encoded(task, model, SENTENCES))[0]
        model.decoder.target.pair = model.decoder.target.brackets = None
        assert_steps_equal_the_whole(task, model, tokens)
        after = model.decoder(tokens, encoder_out=encoded(task, model, SENTENCES))[0]
    assert not torch.allclose(walked, after, atol=1e-3)


def test_weights_for_alignments(model_of):
    task, model = model_of("cross_attention", "window(size=3)")
    state, tokens = encoded(task, model.eval(), SENTENCES), targets(task, SHORT)
    tokens = tokens[[0, 3, 0, 3]]  # without padding
    [mean] = model.decoder(tokens, encoder_out=state)[1]["attn"]
    each = model.decoder(tokens, encoder_out=state, alignment_heads=1)[1]["attn"][0]
    padding = state["encoder_padding_mask"][0]
    assert mean.shape == (4, SHORT, padding.size(1)) and not torch.allclose(mean, each)
    torch.testing.assert_close(mean.sum(-1), torch.ones(4, SHORT))
    assert (mean * padding[:, None] == 0).all()
    for row, length in enumerate((~padding).sum(1).tolist()):
        seen = mean[row][:, ~padding[row]] > 0
        for i in range(SHORT):  # beyond the end of the source its last pieces are seen
            centre = min(i, length - 1)
            expected = range(max(0, centre - 1), min(length, centre + 2))
            assert seen[i].nonzero()[:, 0].tolist() == list(expected)


def test_the_export_of_attention_shows_it(model_of):
    """posattn examples asks every layer for the weights of each head."""
    task, model = model_of("cross_attention", "window(size=3)@1 + tree_depth_bias")
    sample = batch(task, "test", [0])
    _, crossing = decoder_attention(model.eval(), sample, sample["target"][0])
    layers, heads, queries, keys = crossing.shape
    assert (layers, heads, keys) == (2, 4, sample["net_input"]["src_tokens"].size(1))
    assert np.allclose(crossing.sum(-1), 1, atol=1e-5)
    far = np.abs(np.arange(keys) - np.minimum(np.arange(queries), keys - 1)[:, None]) > 1
    assert (crossing[1][:, far] == 0).all() and (crossing[0] > 0).all()


def test_only_mechanisms_that_read_trees_ask_for_them(toy_data):
    """New text is parsed for a model whose cross-attention alone reads trees."""
    for specification, wanted in (("tree_depth_bias@1", True), ("window", False)):
        task, model, _ = build(toy_data, *with_option("cross_attention", specification))
        assert model.encoder.needs_tree == task.needs_trees == wanted
        if wanted:
            fields = batch(task)["net_input"]
            with pytest.raises(InputError, match=r"cross-attention 'tree_depth_bias\(max=8\)@1'"):
                model.encoder(fields["src_tokens"], fields["src_lengths"])


def test_trees_need_a_task_that_loads_them(toy_data, tmp_path):
    chosen = (*with_option("cross_attention", "tree_depth_bias"), "--task", "translation")
    result = train(toy_data, tmp_path, *chosen, check=False)
    assert "cross-attention 'tree_depth_bias(max=8)' reads trees" in result.message
    assert "use --task structured_translation" in result.message


def test_a_checkpoint_with_other_mechanisms_loads_too(model_of):
    """Parameters of the decoder's self-attention are kept; those of other cross-attention do not
    fit."""
    before = model_of("cross_attention", "", decoder_attention="gaussian")[1].state_dict()
    model = model_of("cross_attention", "gaussian", decoder_attention="gaussian")[1]
    model.load_state_dict(dict(before), strict=True)
    assert all(torch.equal(model.state_dict()[key], value) for key, value in before.items())
    other = model_of("cross_attention", "gaussian + temperature", decoder_attention="gaussian")[1]
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict(model.state_dict(), strict=True)
