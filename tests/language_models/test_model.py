"""The language models under fairseq: what a batch, a beam and a criterion may rely on."""

import math
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary

from fairseq_posattn.errors import InputError
from fairseq_posattn.fairseq_plugin.criterions import (
    SummedCrossEntropyCriterion,
)
from fairseq_posattn.language_models.model import (
    PRESETS,
    RecurrentLanguageModelConfig,
    RecurrentLanguageModelForFairseq,
)
from fairseq_posattn.language_models.network import RecurrentLanguageModel, RecurrentShape

LONGEST = 12
MODELS = sorted(PRESETS)


def dictionary(words: int = 26) -> Dictionary:
    found = Dictionary()
    for number in range(words):
        found.add_symbol(f"w{number}")
    return found


def build(preset: str, **options):
    """Build a tiny model without dropout, with parameters large enough to matter."""
    torch.manual_seed(2)
    small = {"decoder_embed_dim": 8, "tokens_per_sample": LONGEST, "max_target_positions": None}
    config = {name: getattr(RecurrentLanguageModelConfig(), name) for name in OPTIONS}
    config = {**config, **PRESETS[preset], **small, **options}
    words = dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    model = RecurrentLanguageModelForFairseq.build_model(Namespace(**config), task)
    for parameter in model.parameters():
        torch.nn.init.uniform_(parameter, -0.7, 0.7)
    return model.eval()


OPTIONS = list(RecurrentLanguageModelConfig.__dataclass_fields__)


def sentences(*lengths, left: bool = False) -> torch.Tensor:
    """Draw random tokens, which are the same for either side of the padding."""
    torch.manual_seed(3)
    pad, longest = dictionary().pad(), max(lengths)
    tokens = torch.full((len(lengths), longest), pad)
    for row, length in zip(tokens, lengths, strict=True):
        row[longest - length if left else 0 :][:length] = torch.randint(4, 30, (length,))
    return tokens


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("preset", MODELS)
def test_a_sentence_alone_as_in_a_batch_padded_on_either_side(preset, left):
    model = build(preset)
    tokens = sentences(9, 5, 1, left=left)
    together, extra = model(tokens)
    for row, scores, b in zip(tokens, together, range(3), strict=True):
        real = row != dictionary().pad()
        alone, extra_alone = model(row[real][None])
        torch.testing.assert_close(scores[real], alone[0])
        if extra["weights"] is not None:
            weights = extra["weights"][b][real][:, real]
            torch.testing.assert_close(weights, extra_alone["weights"][0])


@pytest.mark.parametrize("length", ["maximal", "7"])
@pytest.mark.parametrize("preset", MODELS)
def test_word_by_word_as_in_one_pass(preset, length):
    model, tokens = build(preset, sentence_length=length), sentences(9, 9, 9)
    whole, state = model(tokens)[0], {}
    for step in range(9):
        scores, _ = model.decoder(tokens[:, : step + 1], incremental_state=state)
        torch.testing.assert_close(scores[:, 0], whole[:, step])


@pytest.mark.parametrize("preset", MODELS)
def test_a_beam_may_reorder_the_sentences(preset):
    model, tokens = build(preset, sentence_length="maximal"), sentences(6, 6, 6)
    order, state = torch.tensor([2, 0, 0, 1]), {}
    model.decoder(tokens[:, :1], incremental_state=state)
    model.decoder(tokens[:, :2], incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    scores, _ = model.decoder(tokens[order][:, :3], incremental_state=state)
    torch.testing.assert_close(scores[:, 0], model(tokens[order])[0][:, 2])


def test_what_stands_for_the_length_while_generating():
    tokens = sentences(9, 5)
    steps = {}
    for length in ("own", "maximal", "12", "5"):
        model = build("positional_attentive_lm", sentence_length=length)
        state = {}
        for step in range(3):  # the first has one state to look at, wherever it looks
            steps[length], _ = model.decoder(tokens[:, : step + 1], incremental_state=state)
    assert torch.equal(steps["own"], steps["maximal"]) and torch.equal(steps["own"], steps["12"])
    assert not torch.allclose(steps["own"], steps["5"])
    own = build("positional_attentive_lm")(tokens)[0]
    maximal = build("positional_attentive_lm", sentence_length="maximal")(tokens)[0]
    five = build("positional_attentive_lm", sentence_length="5")(tokens)[0]
    assert not torch.allclose(own, maximal)
    torch.testing.assert_close(own[1, :5], five[1, :5])  # its own length


@pytest.mark.parametrize("length", ["none", "0", "-3", "2.5"])
def test_a_length_that_is_none_is_refused(length):
    with pytest.raises(InputError, match="own, maximal or a number"):
        build("attentive_lm", sentence_length=length)


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("lstm_lm_tied", 7_860_001),
        ("attentive_lm", 7_058_002),
        ("positional_attentive_lm", 6_931_045),
    ],
)
def test_the_published_numbers_of_parameters(preset, parameters):
    words = dictionary(10_001 - len(dictionary(0)))
    model = build_of_full_size(preset, words)
    assert len(words) == 10_001
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def build_of_full_size(preset: str, words: Dictionary):
    config = {name: getattr(RecurrentLanguageModelConfig(), name) for name in OPTIONS}
    config = {**config, **PRESETS[preset], "tokens_per_sample": 36, "max_target_positions": None}
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    with torch.device("meta"):
        return RecurrentLanguageModelForFairseq.build_model(Namespace(**config), task)


@pytest.mark.parametrize("preset", MODELS)
def test_every_parameter_learns_and_dropout_is_where_it_was_published(preset):
    model, tokens = build(preset), sentences(9, 5)
    model.double()
    scores = model(tokens)[0]
    F.cross_entropy(scores.flatten(0, 1), tokens.flatten()).backward()
    for name, parameter in model.named_parameters():
        # a bias that is added to every score changes no weight
        assert parameter.grad.any() or name.endswith("score.outer.bias"), name
    assert torch.equal(model(tokens)[0], scores)
    torch.manual_seed(5)
    assert not torch.allclose(model.train()(tokens)[0], scores)


def test_each_dropout_acts():
    tokens, settings = torch.randint(4, 30, (2, 6)), {"vocabulary": 30, "padding": 1, "width": 8}
    off = {"input_dropout": 0.0, "layer_dropout": 0.0, "output_dropout": 0.0}
    lengths = torch.tensor([6, 6])
    for name in (None, *off):
        torch.manual_seed(1)
        model = RecurrentLanguageModel(
            RecurrentShape(**settings, **{**off, **({name: 0.5} if name else {})})
        ).train()
        one, other = (model.features(tokens, lengths)[0] for _ in range(2))
        assert torch.equal(one, other) == (name is None), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("preset", MODELS)
def test_half_precision_is_close(preset, dtype):
    if dtype == torch.float16 and torch.__version__ < "2.2":
        pytest.skip("this torch multiplies no float16 on the CPU")
    tokens = sentences(12, 4)
    half = build(preset).to(dtype)(tokens)[0]
    exact = build(preset).to(dtype).double()(tokens)[0]
    real = tokens != dictionary().pad()
    error = (half.double() - exact)[real].abs().mean()
    assert error < (0.005 if dtype == torch.float16 else 0.04) and half.dtype == dtype


# the criterion


def criterion() -> SummedCrossEntropyCriterion:
    return SummedCrossEntropyCriterion(SimpleNamespace(target_dictionary=dictionary()))


def batch(*lengths) -> dict:
    tokens, targets = sentences(*lengths), sentences(*lengths).flip(0)
    tokens[targets == dictionary().pad()] = dictionary().pad()
    targets[tokens == dictionary().pad()] = dictionary().pad()
    real = int((targets != dictionary().pad()).sum())
    return {"net_input": {"src_tokens": tokens}, "target": targets, "ntokens": real}


def test_the_loss_is_the_sum_over_words_and_its_gradient_is_not_divided():
    model, sample = build("attentive_lm"), batch(6, 6)
    loss, divisor, logged = criterion()(model, sample)
    log_probabilities = model(sample["net_input"]["src_tokens"])[0].log_softmax(dim=-1)
    expected = 0.0
    for row, targets in zip(log_probabilities, sample["target"].tolist(), strict=True):
        for probabilities, target in zip(row, targets, strict=True):
            expected -= probabilities[target].item()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert (divisor or 1.0) == 1.0  # fairseq's trainer divides by this
    assert logged["sample_size"] == logged["ntokens"] == 12 and logged["nsentences"] == 2


def test_padding_counts_for_nothing():
    model, sample = build("lstm_lm_tied"), batch(6, 6)
    padded = {**sample, "target": sample["target"].clone()}
    padded["target"][0] = dictionary().pad()
    padded["ntokens"] = 6
    alone = {
        "net_input": {"src_tokens": sample["net_input"]["src_tokens"][1:]},
        "target": sample["target"][1:],
        "ntokens": 6,
    }
    one, other = (criterion()(model, which)[0] for which in (padded, alone))
    torch.testing.assert_close(one, other)


def test_the_report_is_per_word_over_all_processes():
    from fairseq.logging import metrics

    outputs = [
        {"loss": torch.tensor(30.0), "ntokens": 10, "nsentences": 2, "sample_size": 10},
        {"loss": torch.tensor(12.0), "ntokens": 20, "nsentences": 3, "sample_size": 20},
    ]
    with metrics.aggregate() as found:
        SummedCrossEntropyCriterion.reduce_metrics(outputs)
    loss = 42 / 30 / math.log(2)
    assert found.get_smoothed_value("loss") == pytest.approx(loss, abs=1e-3)
    assert found.get_smoothed_values()["ppl"] == pytest.approx(2**loss, rel=1e-2)
