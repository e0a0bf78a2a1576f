"""The tagger's network against its slow reference, and what holds for each preset."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY

import fairseq_posattn.plugin  # noqa: F401  (registers the presets)
from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.tagging.dataset import TaggingDataset
from fairseq_posattn.tagging.model import TAGGERS as OPTIONS
from fairseq_posattn.tagging.model import SanTaggerConfig, SanTaggerModel
from fairseq_posattn.tagging.network import Tagger, TaggerShape
from support.distributions import check_keras_normal, check_uniform
from support.reference_tagger import scores_of_tags

LENGTHS = [3, 1, 7, 4]  # of the sentences of a batch
SMALL = dict(words=9, characters=8, labels=5, word_width=5, character_width=4, filters=7)
SIZES = SMALL | dict(kernel=5, convolutions=3, layers=3, heads=4, max_positions=7)
TAGGERS = {name: (o["encoder_positions"], o["encoder_attention"]) for name, o in OPTIONS.items()}
presets = pytest.mark.parametrize("model", TAGGERS)


def tagger(positions: str, attention: str, dropout=0.0, **sizes) -> Tagger:
    """All parameters are random: none is at its start, where it may say nothing."""
    shape = TaggerShape(**{**SIZES, **sizes}, positions=positions)
    if shape.width % shape.heads:  # concatenated positions are as wide as words
        shape = TaggerShape(**{**SIZES, "filters": 6, **sizes}, positions=positions)
    network = Tagger(shape, AttentionSpecification(attention), dropout)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.5)
    return network.double().eval()


def sentence(length: int, seed: int = 0) -> dict:
    """Words and their characters, 1 to 6; 1 stands for unknown ones."""
    draw = torch.Generator().manual_seed(100 * length + seed)
    words = torch.randint(1, 9, (length,), generator=draw).tolist()
    sizes = torch.randint(1, 7, (length,), generator=draw).tolist()
    spellings = [torch.randint(1, 8, (size,), generator=draw).tolist() for size in sizes]
    return {"words": words, "spellings": spellings}


def batch(*sentences: dict) -> dict:
    words = [torch.tensor(s["words"]) for s in sentences]
    chars = [torch.tensor([c for w in s["spellings"] for c in (*w, 0)]) for s in sentences]
    data = TaggingDataset(words, chars)
    return data.collater([data[k] for k in range(len(data))])["net_input"]


def outputs(network: Tagger, *sentences: dict) -> list:
    with torch.no_grad():
        found = network(**batch(*sentences))
    return [rows[: len(s["words"])] for rows, s in zip(found, sentences, strict=True)]


def near(found, expected, tolerance=1e-9):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


# --- the reference -------------------------------------------------------------------


@presets
def test_each_sentence_of_a_batch_is_the_reference_of_it_alone(model):
    network = tagger(*TAGGERS[model])
    sentences = [sentence(length) for length in LENGTHS]
    for found, alone in zip(outputs(network, *sentences), sentences, strict=True):
        near(found, scores_of_tags(network, **alone))


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("convolutions", [1, 2])
def test_convolutions_over_characters(kernel, convolutions):
    network = tagger("added", "", kernel=kernel, convolutions=convolutions, layers=1)
    words = sentence(5)
    near(outputs(network, words)[0], scores_of_tags(network, **words))


@presets
def test_every_parameter_has_the_gradient_of_the_reference(model):
    network = tagger(*TAGGERS[model], layers=2, convolutions=2, max_positions=3)
    words, gradients = sentence(3), []
    for found in (network(**batch(words))[0], scores_of_tags(network, **words)):
        network.zero_grad()
        (found - torch.arange(5.0)).square().sum().backward()
        gradients.append({name: p.grad.clone() for name, p in network.named_parameters()})
    torch.testing.assert_close(*gradients)
    assert all(gradient.any() for gradient in gradients[0].values())


def test_dropout_acts_on_the_residual_too():
    """Without values attention adds nothing: what is left is the dropped-out input."""
    layer = tagger("none", "", dropout=0.5, layers=1).layers[0].train()
    torch.nn.init.zeros_(layer.attention.v_proj.weight)
    x = torch.ones(50, 1, 12, dtype=torch.float64)
    network = tagger("none", "")
    found = layer(x, network.context(torch.ones(1, 50, dtype=torch.long)))
    assert found.unique().tolist() == [0, 2]
    near(layer.eval()(x, network.context(torch.ones(1, 50, dtype=torch.long))), x)


# --- a sentence beside others --------------------------------------------------------


# --- what reaches what ---------------------------------------------------------------


# --- published numbers of parameters (Table 1c) --------------------------------------

PTB = dict(words=range(20002), chars=range(84), tags=range(47))


class Tags(list):
    nspecial = 2


def built(architecture: str) -> SanTaggerModel:
    chosen = SimpleNamespace()
    ARCH_CONFIG_REGISTRY[architecture](chosen)
    vocabulary = SimpleNamespace(**PTB)
    vocabulary.tags = Tags(PTB["tags"])
    with torch.device("meta"):
        cfg = SanTaggerConfig(**vars(chosen))
        return SanTaggerModel.build_model(cfg, SimpleNamespace(vocabulary=vocabulary))


def size(model: str) -> int:
    return sum(p.numel() for p in built(f"san_tagger_{model}_ptb").parameters())


CONCATENATED = 18_000 + 12 * (664**2 - 364**2) + 2 * 300 * 47  # not published


@pytest.mark.parametrize(
    "model, without, addition",
    [
        ("pe_add", "san", 18_000),
        ("pe_con", "san", CONCATENATED),
        ("p", "san", 14_400),
        ("r", "san", 480),
        ("r_symmetric", "san", 480),
        ("p_r", "san", 14_880),
        ("temp", "pe_add", 48),
        ("conv", "pe_add", 173_760),
        ("conv2d", "pe_add", 160),
    ],
)
def test_published_numbers_of_parameters(model, without, addition):
    assert size("san") == 7_691_823
    assert size(model) - size(without) == addition


@presets
def test_presets_are_what_they_are_called(model):
    for suffix, width in ("", 128), ("_ptb", 300):
        shape = built(f"san_tagger_{model}{suffix}").tagger.shape
        assert (shape.positions, shape.word_width) == (TAGGERS[model][0], width)
        assert (shape.layers, shape.heads, shape.max_positions) == (4, 4, 60)
        assert (shape.character_width, shape.filters) == (64, 64)


@pytest.mark.parametrize("model", ["p_r", "conv", "conv2d"])
def test_weights_start_as_in_the_authors_program(model):
    """Width 192, of which a head has 48; t = 60."""
    torch.manual_seed(1)
    shape = TaggerShape(words=9, characters=8, labels=5, positions=TAGGERS[model][0])
    layers = Tagger(shape, AttentionSpecification(TAGGERS[model][1])).layers
    for name in ("q_proj", "k_proj", "v_proj"):
        for layer in layers:
            check_keras_normal(getattr(layer.attention, name).weight, (2 / (192 + 48)) ** 0.5)
    starts = {
        "direct_absolute.scores": (check_keras_normal, (2 / 120) ** 0.5),
        "convolved_1d.weight": (check_uniform, (2 / 360) ** 0.5),
    }
    for name, numbers in layers[0].attention.mechanisms.named_parameters():
        if name in starts:
            check, deviation = starts[name]
            check(numbers, deviation)
        if name == "direct_relative.scores":  # too few numbers for the shape
            assert numbers.std().item() == pytest.approx(0.302, abs=0.03)
        if name == "convolved_2d.weight":
            assert numbers.abs().max() <= 3**0.5 / 3


def test_padding_and_unknown_are_never_a_tag():
    model = built("san_tagger_san")
    scores = torch.tensor([[[9.0, 8.0, 1.0, 3.0], [9.0, 8.0, 2.0, 1.0]]])
    assert model.tags(scores).tolist() == [[3, 2]]
