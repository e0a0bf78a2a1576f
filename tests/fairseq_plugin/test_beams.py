"""Beam search without copies finds the translations that stock fairseq's attention finds."""

import pytest
import torch

from fairseq_posattn.fairseq_plugin import candidates
from fairseq_posattn.fairseq_plugin.models import fast_linear
from fairseq_posattn.fairseq_plugin.models.beams import BEAMS, Beams, BeamSelfAttention
from support.in_process import build, generate

PLUGIN = "fairseq_posattn.fairseq_plugin"
OPTIONS = {
    "beam": ["--beam", "5", "--nbest", "5"],
    "long": ["--beam", "3", "--min-len", "70", "--max-len-b", "90"],
    "greedy": ["--beam", "1"],
    "sampled": ["--sampling", "--sampling-topk", "1", "--beam", "3", "--nbest", "3"],
    "prefixed": ["--prefix-size", "2", "--beam", "4"],
    "siblings": ["--beam", "4", "--diversity-rate", "0.5"],
    "alignments": ["--beam", "4", "--print-alignment", "soft"],
    "no unknown words": ["--beam", "4", "--unkpen", "1"],
    "no repetition": ["--beam", "4", "--no-repeat-ngram-size", "2"],
}


def results(output: str) -> tuple[list, torch.Tensor]:
    """Return the words and the numbers that fairseq-generate prints for each sentence."""
    lines = [line for line in output.splitlines() if line[:2] in ("H-", "P-", "A-")]
    words, numbers = [], []
    for field in " ".join(lines).replace(",", " ").split():
        try:
            numbers.append(float(field))
        except ValueError:
            words.append(field)
    return words, torch.tensor(numbers)


def assert_same(a: str, b: str) -> None:
    (words, numbers), (others, other_numbers) = results(a), results(b)
    assert len(words) > 100 and words == others
    torch.testing.assert_close(numbers, other_numbers, atol=2e-3, rtol=0)  # of 3 or 4 digits


@pytest.fixture(autouse=True)
def small_vocabularies_too(monkeypatch):
    monkeypatch.setattr(candidates, "SMALLEST", 1)


@pytest.mark.parametrize("case", OPTIONS)
def test_translations(case, toy_data, tree_model, monkeypatch):
    options = [*OPTIONS[case], "--batch-size", "16"]
    now = generate(toy_data, tree_model, *options).output
    for name in ("models.decoder.share_keys", "structured_translation.use_candidates"):
        monkeypatch.setattr(f"{PLUGIN}.{name}", lambda changed: None)
    assert_same(now, generate(toy_data, tree_model, *options).output)


def test_translations_with_8_bit_weights(toy_data, tree_model, monkeypatch):
    now = generate(toy_data, tree_model, "--int8").output
    monkeypatch.setattr(fast_linear, "joined", lambda layers: None)  # a product for each projection
    assert_same(now, generate(toy_data, tree_model, "--int8").output)


def test_keys_are_computed_once_per_sentence_and_never_copied(toy_data):
    model = build(toy_data, "--arch", "posattn_structural_tiny").model.eval()
    model.make_generation_fast_()
    layer = model.decoder.layers[0]
    width, sentences = model.decoder.embed_dim, torch.tensor([0, 0, 0, 1, 1, 1])
    encoded = {
        "encoder_out": [torch.randn(2, 7, width).repeat_interleave(3, 0).transpose(0, 1)],
        "encoder_padding_mask": [torch.zeros(6, 7).bool()],
        "sentences": [sentences],
    }
    pieces, state = torch.randint(4, 9, (6, 3)), {}
    with torch.no_grad():
        model.decoder(pieces[:, :1], encoded, incremental_state=state)
        kept = layer.self_attn._get_input_buffer(state)["prev_key"].data_ptr()
        assert len(layer.encoder_attn._get_input_buffer(state)["prev_key"]) == 2
        model.decoder.reorder_incremental_state_scripting(state, torch.tensor([1, 0, 0, 3, 5, 5]))
        model.decoder(pieces[:, :2], encoded, incremental_state=state)
        assert layer.self_attn._get_input_buffer(state)["prev_key"].data_ptr() == kept
        assert isinstance(layer.self_attn, BeamSelfAttention)
        model.decoder.reorder_incremental_state_scripting(state, torch.tensor([3, 3, 4]))
        assert len(layer.self_attn._get_input_buffer(state)["prev_key"]) == 1
        with pytest.raises(ValueError, match="mixed the hypotheses"):
            state[BEAMS].reorder(torch.tensor([0, 1, 3]))


def test_batches_without_beams_of_one_size():
    assert Beams.of(torch.tensor([0, 0, 1])) is None
    assert Beams.of(torch.tensor([0, 1, 1, 0])) is None
    assert Beams.of(torch.tensor([2, 2, 0, 0])).size == 2


@pytest.mark.parametrize("size", [30, 97, 1000])
def test_candidates_include_the_best_words(size):
    torch.manual_seed(size)
    for draw in (torch.randn, lambda *shape: torch.randint(5, shape).float()):  # the second: ties
        scores = draw(7, size)
        words = candidates.candidates(scores, 4, 3)
        assert all(len(set(row)) == len(row) < size for row in words.tolist())
        assert words[:, :4].tolist() == 7 * [[0, 1, 2, 3]]
        found = scores.gather(1, words).topk(3)[0]
        assert torch.equal(found, scores.topk(3)[0])
    assert candidates.candidates(scores[:, :7], 4, 3) is None  # too few words for blocks
