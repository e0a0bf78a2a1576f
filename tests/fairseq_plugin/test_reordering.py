"""A beam search gets the encoder's output as from fairseq, copied only where it must be."""

import pytest
import torch
from fairseq.models.transformer import TransformerEncoderBase
from hypothesis import given
from hypothesis import strategies as st

import fairseq_posattn.plugin  # noqa: F401
from fairseq_posattn.fairseq_plugin.models.cross_attention import TREE
from support.commands import FULL_TREE
from support.in_process import batch, build

KEYS = ("encoder_out", "encoder_padding_mask", "encoder_embedding", "src_lengths")
BEAM = 3


@pytest.fixture(scope="module")
def encoder_and_output(toy_data):
    task, model, _ = build(toy_data, *FULL_TREE, "--cross-attention", "tree_depth_bias")
    fields = batch(task, sentences=[0, 1, 2, 3])["net_input"]
    fields.pop("prev_output_tokens")
    with torch.no_grad():
        return model.encoder, model.encoder(**fields)


@given(data=st.data())
def test_any_orders_give_what_fairseq_gives(encoder_and_output, data):
    """Also orders that no beam search asks for."""
    encoder, ours = encoder_and_output
    stock, [tree] = ours, ours[TREE]
    rows = torch.arange(4)  # of the batch, of which the output now is
    for _ in range(3):
        chosen = st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12)
        order = torch.tensor(data.draw(chosen | st.just(list(range(len(rows))))))
        rows = rows[order]
        stock = TransformerEncoderBase.reorder_encoder_out(encoder, stock, order)
        ours = encoder.reorder_encoder_out(ours, order)
        assert all(torch.equal(ours[key][0], stock[key][0]) for key in KEYS)
        assert torch.equal(ours[TREE][0].words, tree.words[rows])
        assert torch.equal(ours[TREE][0].parents, tree.parents[rows])


def test_a_beam_search_copies_where_sentences_end(encoder_and_output):
    encoder, state = encoder_and_output
    many = encoder.reorder_encoder_out(state, torch.arange(4).repeat_interleave(BEAM))
    within = torch.tensor([2, 2, 0, 3, 4, 5, 8, 7, 6, 11, 11, 11])
    assert encoder.reorder_encoder_out(many, within) is many
    fewer = encoder.reorder_encoder_out(many, within[BEAM:])  # the first sentence has ended
    assert torch.equal(fewer["encoder_out"][0], many["encoder_out"][0][:, BEAM:])
    assert torch.equal(fewer[TREE][0].words, many[TREE][0].words[BEAM:])
    assert encoder.reorder_encoder_out(fewer, within[BEAM:] - BEAM) is fewer
    across = torch.tensor([0, 1, 3, 2, 4, 5, 6, 7, 8])
    swapped = encoder.reorder_encoder_out(fewer, across)
    assert swapped is not fewer
    assert torch.equal(swapped["encoder_out"][0], fewer["encoder_out"][0][:, across])
