"""attention_s2s: padding, batches, decoding word by word, presets and programs."""

import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment

from fairseq_posattn.fairseq_plugin.models.attention_s2s import (
    AttentionS2SConfig,
    AttentionS2SModel,
)
from support.commands import PLUGIN, fairseq, hypotheses, losses

ATTENTIONS = ("positional", "content", "none")
PRESETS = dict(
    zip(ATTENTIONS, ("positional_attention_s2s", "content_attention_s2s", "plain_s2s"), strict=True)
)
WORDS = ("a", "b", "c", "d", "e")


def dictionary():
    words = Dictionary()
    for word in WORDS:
        words.add_symbol(word)
    return words


def build(attention, seed=1, **options):
    torch.manual_seed(seed)
    words = dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    cfg = AttentionS2SConfig(attention=attention, width=8, position_width=3, **options)
    model = AttentionS2SModel.build_model(cfg, task).double().eval()
    if attention == "positional":
        with torch.no_grad():
            model.decoder.attention.generator.to_mu.bias.add_(0.5)
    return model


@pytest.fixture(params=ATTENTIONS)
def attention(request):
    return request.param


def sentences(*texts):
    return [dictionary().encode_line(text, add_if_not_exist=False).long() for text in texts]


def batch(rows, left=True):
    pad, longest = dictionary().pad(), max(map(len, rows))
    filler = [torch.full((longest - len(row),), pad) for row in rows]
    pairs = zip(filler, rows, strict=True)
    tokens = torch.stack([torch.cat([f, r] if left else [r, f]) for f, r in pairs])
    return tokens, torch.tensor([len(row) for row in rows])


def forward(model, sources, targets, left=True):
    before = [torch.cat([row[-1:], row[:-1]]) for row in targets]
    return model(*batch(sources, left), batch(before, left=False)[0])


SOURCES = sentences("a b", "c d e a b", "e")
TARGETS = sentences("b a c", "a", "d d d d")


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("left", [True, False])
def test_a_sentence_alone_as_in_a_batch_with_padding_on_either_side(attention, layers, left):
    model = build(attention, layers=layers)
    together, extra = forward(model, SOURCES, TARGETS, left)
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone, alone_extra = forward(model, [source], [target])
        torch.testing.assert_close(together[row, : len(target)], alone[0])
        if attention != "none":
            weights = extra["attn"][0][row, : len(target)]
            real = batch(SOURCES, left)[0][row] != dictionary().pad()
            torch.testing.assert_close(weights[:, real], alone_extra["attn"][0][0])
            assert (weights[:, ~real] == 0).all()


def walking_model():
    """mu = t / N with a sharp sigma: step t looks at word t, whatever the padding."""
    model = build("positional")
    generator = model.decoder.attention.generator
    with torch.no_grad():
        for layer, bias in ((generator.to_mu, [0.0, 0.0, 1.0]), (generator.to_sigma, [-9.0])):
            layer.weight.zero_()
            layer.bias.copy_(torch.tensor(bias))
    return model


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("beam", [1, 3])
def test_alignments_and_attention_of_translations_name_the_right_words(beam, left):
    """fairseq's own LSTM prints them shifted by the padding (its issue 3625)."""
    tokens, lengths = batch(SOURCES, left)
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
    options = {"beam_size": beam, "max_len_a": 0, "max_len_b": 6, "min_len": 6}
    model = walking_model()
    hard, soft = (
        SequenceGeneratorWithAlignment([model], dictionary(), print_alignment=kind, **options)
        for kind in ("hard", "soft")
    )
    for row, (source, hypos) in enumerate(
        zip(SOURCES, hard.generate([model], sample), strict=True)
    ):
        words = len(source) - 1
        for hypo in hypos:
            assert hypo["alignment"][:words] == [(k, k) for k in range(words)]
            columns = hypo["attention"][:, : words + 1].argmax(0)  # S T, with the padding
            assert tokens[row, columns].tolist() == source.tolist()
    for source, hypos in zip(SOURCES, soft.generate([model], sample), strict=True):
        for hypo in hypos:
            seen = [[float(p) for p in probabilities] for probabilities in hypo["alignment"]]
            assert [max(range(len(p)), key=p.__getitem__) for p in seen[: len(source)]] == list(
                range(len(source))
            )


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_word_by_word_gives_the_scores_of_one_pass(attention, beam, layers):
    model = build(attention, layers=layers)
    generator = SequenceGenerator(
        [model], dictionary(), beam_size=beam, max_len_a=1, max_len_b=4, normalize_scores=False
    )
    tokens, lengths = batch(SOURCES)
    found = generator.generate(
        [model], {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
    )
    for source, hypos in zip(SOURCES, found, strict=True):
        assert len(hypos) == beam
        for hypo in hypos:
            logits, _ = forward(model, [source], [hypo["tokens"]])
            scores = logits.log_softmax(-1)[0].gather(1, hypo["tokens"][:, None]).squeeze(1)
            found_scores = hypo["positional_scores"].double()  # fairseq sums them in float32
            torch.testing.assert_close(found_scores, scores, atol=1e-5, rtol=1e-5)


def test_a_prefix_in_one_call_then_word_by_word(attention):
    model = build(attention)
    source, before = batch(SOURCES), batch(sentences("a b c d", "d d a b", "e a b c"))[0]
    encoded = model.encoder(*source)
    whole, _ = model.decoder(before, encoded)
    state = {}
    start, _ = model.decoder(before[:, :2], encoded, incremental_state=state)
    rest = [
        model.decoder(before[:, :n], encoded, incremental_state=state)[0]
        for n in range(3, before.size(1) + 1)
    ]
    torch.testing.assert_close(torch.cat([start, *rest], 1), whole)


def test_every_parameter_gets_a_gradient(attention):
    model = build(attention).train()
    logits, _ = forward(model, SOURCES, TARGETS)
    logits.logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_states_only_and_the_start_of_the_decoder_matter():
    expected, _ = forward(build("content"), SOURCES, TARGETS)
    for options in ({"states_only": True}, {"decoder_start": "encoder"}):
        found, _ = forward(build("content", **options), SOURCES, TARGETS)
        assert not torch.allclose(found, expected)
    same, _ = forward(build("content", decoder_start="zeros"), SOURCES, TARGETS)
    torch.testing.assert_close(same, expected, rtol=0, atol=0)


def test_what_cannot_work_is_refused():
    with pytest.raises(ValueError, match="hides the source from the decoder; omit"):
        build("none", decoder_start="zeros")
    with pytest.raises(ValueError, match="--layers 0 is too small; give at least 1"):
        build("content", layers=0)


def test_presets_choose_the_attention_and_override_nothing():
    for attention, name in PRESETS.items():
        args = SimpleNamespace()
        ARCH_CONFIG_REGISTRY[name](args)
        assert args.attention == attention
        chosen = SimpleNamespace(attention="content")
        ARCH_CONFIG_REGISTRY[name](chosen)
        assert chosen.attention == "content"


@pytest.mark.long
def test_the_programs_on_a_corpus(toy_data, tmp_path):
    """They run under structured_translation; the recipe uses fairseq's own task."""
    start = ["--user-dir", PLUGIN, "--task", "structured_translation", "-s", "src", "-t", "tgt"]
    start += ["--cpu"]
    training = ["--arch", "positional_attention_s2s", "--width", 16, "--optimizer", "adam"]
    training += ["--lr", "1e-2", "--max-tokens", 1000, "--max-update", 4, "--num-workers", 0]
    training += ["--log-format", "simple", "--log-interval", 1, "--save-dir", tmp_path]
    found = losses(fairseq("train", toy_data, *start, *training).stdout)
    assert len(found) == 4 and float(found[-1]) < float(found[0])
    checkpoint = ["--path", tmp_path / "checkpoint_last.pt"]
    decoded = {}
    common = ["--beam", 2, "--max-len-b", 10, "--print-alignment"]
    # --left-pad-source takes the default back: padding on the right
    for options in (["16"], ["16", "--left-pad-source"], ["1"]):
        result = fairseq(
            "generate", toy_data, *start, *checkpoint, *common, "--batch-size", *options
        )
        alignments = dict(re.findall(r"^A-(\d+)\t(.+)$", result.stdout, re.M))
        decoded[" ".join(options)] = hypotheses(result.stdout), alignments
    left, right, alone = decoded.values()
    assert left == right == alone and min(map(len, left)) > 50
