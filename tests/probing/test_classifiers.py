"""The classifiers of the probes: against a plain loop, and on vectors of which the answer is known.

The plain loop takes the first weights of a classifier, and the order of the sentences.
"""

import math

import numpy as np
import pytest
import torch

from fairseq_posattn.probing import classifiers
from fairseq_posattn.probing.classifiers import GRIDS, Setting, Split, fit, network, tuned

SEED = 7


def split_of(vectors, labels):
    return Split(torch.as_tensor(vectors, dtype=torch.float32), torch.as_tensor(labels))


def random_splits(classes=3, width=6, sizes=(150, 60, 50), noise=1.2, seed=1):
    """Return splits whose vectors lie around a point for each class, and overlap."""
    dice = np.random.default_rng(seed)
    middles = dice.normal(size=(classes, width))
    found = []
    for size in sizes:
        labels = dice.integers(classes, size=size)
        found.append(split_of(middles[labels] + noise * dice.normal(size=(size, width)), labels))
    return found


def slow_fit(setting, train, dev, classes, longest):
    """Return the best accuracy on dev, and the weights of that look.

    Weight decay is a part of the gradient, as in Adam (Kingma and Ba 2015).
    """
    torch.manual_seed(SEED)
    weights = list(network(setting, train.vectors, classes).parameters())
    adam = torch.optim.Adam(weights, lr=0.001, betas=(0.9, 0.999), eps=1e-8)
    order = torch.Generator().manual_seed(SEED)

    def scores(vectors):
        for matrix, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            vectors = 1 / (1 + (-vectors @ matrix.T - bias).exp())
        return vectors @ weights[-2].T + weights[-1]

    best, kept, without_better, looks = -1.0, None, 0, 0
    while without_better < 6 and 4 * looks < longest:
        for _ in range(4):
            numbers = torch.randperm(len(train.labels), generator=order)
            for first in range(0, len(numbers), 64):
                chosen = numbers[first : first + 64]
                shares = scores(train.vectors[chosen]).softmax(dim=1)
                loss = -shares[torch.arange(len(chosen)), train.labels[chosen]].log().mean()
                loss += setting.decay / 2 * sum(weight.square().sum() for weight in weights)
                adam.zero_grad()
                loss.backward()
                adam.step()
        looks += 1
        accuracy = float((scores(dev.vectors).argmax(dim=1) == dev.labels).double().mean())
        if accuracy > best:
            best, kept = accuracy, [weight.detach().clone() for weight in weights]
        else:
            without_better += 1
    return best, kept


@pytest.mark.parametrize(
    "setting, longest",
    [
        (Setting(), 60),
        (Setting(decay=0.1), 60),
        (Setting(hidden=4), 24),
        (Setting(hidden=3, decay=0.03), 16),
    ],
    ids=str,
)
def test_fit_against_a_plain_loop(setting, longest):
    train, dev, _ = random_splits(sizes=(100, 40, 1))
    expected, weights = slow_fit(setting, train, dev, 3, longest)
    found, model = fit(setting, train, dev, 3, SEED, longest)
    assert found == pytest.approx(expected)
    for ours, theirs in zip(model.parameters(), weights, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-3, atol=2e-5)


# looks and patience


def scripted(monkeypatch, accuracies):
    """Let the looks at dev bring these accuracies; return a list that counts the epochs."""
    script, epochs = iter(accuracies), []
    train_epoch = classifiers.train_epoch

    def epoch(*args):
        epochs.append(1)
        train_epoch(*args)

    monkeypatch.setattr(classifiers, "train_epoch", epoch)
    monkeypatch.setattr(classifiers, "right", lambda *_: np.array([next(script)]))
    return epochs


@pytest.mark.parametrize(
    "accuracies, expected, number_of_looks",
    [
        ([0.5] * 20, 0.5, 7),  # as good is no better
        ([0.5, 0.4, 0.6, *[0.5] * 20], 0.6, 8),  # looks before a better one count, too
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, *[0.0] * 20], 0.7, 13),
        ([k / 100 for k in range(100)], 0.5, 51),  # 204 epochs at most
    ],
)
def test_patience(accuracies, expected, number_of_looks, monkeypatch):
    """The sixth look that brings nothing better is the last one, as in SentEval's code."""
    train, dev, _ = random_splits(sizes=(20, 5, 5))
    epochs = scripted(monkeypatch, accuracies)
    best, _ = fit(Setting(), train, dev, 3, SEED)
    assert best == expected and len(epochs) == 4 * number_of_looks


# settings


def test_grids():
    """WC, which takes SentEval's grid in place of a hidden layer, is in test_probe_command."""
    assert [s.decay for s in GRIDS["senteval"]] == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert {s.hidden for s in GRIDS["senteval"]} == {0}
    pairs = {(s.hidden, s.dropout) for s in GRIDS["mlp"]}
    assert pairs == {(h, d) for h in (50, 100, 200) for d in (0.0, 0.1, 0.2)}
    assert len(GRIDS["mlp"]) == 9 and {s.decay for s in GRIDS["mlp"]} == {0.0}
    assert list(GRIDS["linear"]) == [Setting()]


@pytest.mark.parametrize(
    "accuracies, chosen",
    [
        ([0.5, 0.7, 0.7, 0.6], 1),
        ([0.50001, 0.50003, 0.4, 0.50004], 0),  # SentEval's code rounds to hundredths of a percent
        ([0.5, 0.5002, 0.4, 0.5001], 1),
    ],
)
def test_tuning_takes_the_first_best_setting(accuracies, chosen, monkeypatch):
    train, dev, test = random_splits(sizes=(20, 5, 30))
    models = [network(Setting(), train.vectors, 3) for _ in accuracies]
    asked = []

    def fitted(setting, *_):
        asked.append(setting)
        return accuracies[len(asked) - 1], models[len(asked) - 1]

    monkeypatch.setattr(classifiers, "fit", fitted)
    found = tuned(GRIDS["senteval"], train, dev, test, 3, SEED)
    assert asked == list(GRIDS["senteval"])
    assert found.setting == GRIDS["senteval"][chosen] and found.dev == accuracies[chosen]
    assert found.model is models[chosen]
    guessed = models[chosen](test.vectors).argmax(dim=1).eq(test.labels)
    assert found.correct.tolist() == guessed.tolist()


# vectors of which the answer is known


def with_labels(sizes=(400, 100, 200), classes=4, width=10):
    """Return splits whose vectors hold the label, among noise."""
    dice = np.random.default_rng(3)
    for size in sizes:
        labels = dice.integers(classes, size=size)
        vectors = dice.normal(size=(size, width))
        vectors[:, :classes] = 5 * np.eye(classes)[labels]
        yield split_of(vectors, labels)


def test_a_hidden_layer_finds_what_a_linear_one_cannot():
    """The label says whether two numbers have the same sign."""
    dice = np.random.default_rng(5)
    splits = []
    for size in (600, 200, 200):
        vectors = 2 * dice.normal(size=(size, 2))
        splits.append(split_of(vectors, (vectors.prod(axis=1) > 0).astype(int)))
    linear = tuned([Setting()], *splits, 2, SEED)
    hidden = tuned([Setting(hidden=50)], *splits, 2, SEED)
    assert linear.correct.mean() < 0.7 < 0.8 < hidden.correct.mean()


@pytest.mark.parametrize("classifier", ["linear", "senteval"])
def test_shuffled_labels_stay_near_chance(classifier):
    """Were dev or test seen in training, they would be far above."""
    dice = torch.Generator().manual_seed(2)
    train, dev, test = (
        split._replace(labels=split.labels[torch.randperm(len(split.labels), generator=dice)])
        for split in with_labels()
    )
    found = tuned(GRIDS[classifier], train, dev, test, 4, SEED)
    assert 0.12 < found.correct.mean() < 0.38


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_the_mix_learns_which_layer_has_the_label(layer):
    dice = np.random.default_rng(4)
    splits = []
    for split in with_labels():
        vectors = dice.normal(size=(len(split.labels), 3, split.vectors.shape[1]))
        vectors[:, layer] = split.vectors.numpy()
        splits.append(split_of(vectors, split.labels))
    found = tuned([Setting()], *splits, 4, SEED)
    shares = found.model[0].scores.softmax(dim=0)
    assert shares.argmax() == layer and shares[layer] > 0.4
    assert found.correct.mean() > 0.97


def test_the_mix_is_a_weighted_sum():
    mix = classifiers.Mix(3)
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.0, math.log(2), math.log(5)]))
        mix.scale.fill_(4.0)
    x = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(mix(x), 4 * (x[:, 0] + 2 * x[:, 1] + 5 * x[:, 2]) / 8)


# seeds


@pytest.mark.parametrize("setting", [Setting(), Setting(hidden=8, dropout=0.2)], ids=str)
def test_seeds(setting):
    """Neither the random numbers that others drew nor other fits matter."""
    train, dev, test = random_splits()
    first, other = (tuned([setting], train, dev, test, 3, seed) for seed in (1, 2))
    torch.randn(17)
    again = tuned([setting], train, dev, test, 3, 1)
    for ours, theirs in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert first.dev == again.dev and (first.correct == again.correct).all()
    pairs = list(zip(first.model.parameters(), other.model.parameters(), strict=True))
    assert not all(torch.equal(ours, theirs) for ours, theirs in pairs)
