"""The classifiers of the probes: against plain loops, and on vectors of which the answer is known.

The slow reference knows nothing of torch's layers, losses and optimisers: it takes the first
weights of a classifier, and the order of the sentences.
"""

import math

import numpy as np
import pytest
import torch

from fairseq_posattn.lab.probing import classifiers
from fairseq_posattn.lab.probing.classifiers import GRIDS, Setting, Split, fit, grid, network, tuned

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


# the slow reference


def sigmoid(number):
    return 1 / (1 + math.exp(-number))


def times(matrix, row, bias):
    """Return a row times a matrix that has a line for each output."""
    return np.array([sum(m * x for m, x in zip(line, row, strict=True)) for line in matrix]) + bias


def scores_of(weights, row):
    """Return the scores of the classes, and the hidden units if there are any."""
    if len(weights) == 2:
        return times(*weights[:1], row, weights[1]), None
    hidden = np.array([sigmoid(x) for x in times(weights[0], row, weights[1])])
    return times(weights[2], hidden, weights[3]), hidden


def gradients(weights, rows, labels):
    """Return the gradients of the mean cross-entropy, sentence by sentence."""
    found = [np.zeros_like(weight) for weight in weights]
    for row, label in zip(rows, labels, strict=True):
        scores, hidden = scores_of(weights, row)
        shares = np.exp(scores - scores.max())
        error = shares / shares.sum()
        error[label] -= 1
        error /= len(rows)
        inputs = row if hidden is None else hidden
        found[-2] += np.outer(error, inputs)
        found[-1] += error
        if hidden is not None:
            below = (weights[2].T @ error) * hidden * (1 - hidden)
            found[0] += np.outer(below, row)
            found[1] += below
    return found


class SlowAdam:
    """This is Adam with weight decay as a part of the gradient (Kingma and Ba 2015)."""

    def __init__(self, weights, decay):
        self.decay, self.step = decay, 0
        self.first = [np.zeros_like(weight) for weight in weights]
        self.second = [np.zeros_like(weight) for weight in weights]

    def update(self, weights, found):
        self.step += 1
        for k, gradient in enumerate(found):
            gradient = gradient + self.decay * weights[k]
            self.first[k] = 0.9 * self.first[k] + 0.1 * gradient
            self.second[k] = 0.999 * self.second[k] + 0.001 * gradient**2
            mean = self.first[k] / (1 - 0.9**self.step)
            size = np.sqrt(self.second[k] / (1 - 0.999**self.step))
            weights[k] = weights[k] - 0.001 * mean / (size + 1e-8)


def right_share(weights, rows, labels):
    found = [scores_of(weights, row)[0].argmax() for row in rows]
    return sum(a == b for a, b in zip(found, labels, strict=True)) / len(labels)


def slow_fit(setting, train, dev, classes, longest):
    """Return the best accuracy on dev, the weights of that look, and how many looks there were."""
    torch.manual_seed(SEED)
    start = network(setting, train.vectors, classes)
    weights = [weight.detach().double().numpy().copy() for weight in start.parameters()]
    rows, labels = train.vectors.double().numpy(), train.labels.tolist()
    adam, order = SlowAdam(weights, setting.decay), torch.Generator().manual_seed(SEED)
    best, kept, without_better, looks, epochs = -1.0, None, 0, 0, 0
    while epochs < longest:
        for _ in range(4):
            epochs += 1
            numbers = torch.randperm(len(rows), generator=order).tolist()
            for first in range(0, len(numbers), 64):
                chosen = numbers[first : first + 64]
                of_batch = rows[chosen], [labels[k] for k in chosen]
                adam.update(weights, gradients(weights, *of_batch))
        looks += 1
        accuracy = right_share(weights, dev.vectors.double().numpy(), dev.labels.tolist())
        if accuracy > best:
            best, kept = accuracy, [weight.copy() for weight in weights]
        else:
            without_better += 1
            if without_better > 5:
                break
    return best, kept, looks


@pytest.fixture
def looks(monkeypatch):
    """Return a list that gets the accuracy of each look at dev."""
    found, right = [], classifiers.right

    def seen(model, split):
        of_split = right(model, split)
        found.append(float(of_split.mean()))
        return of_split

    monkeypatch.setattr(classifiers, "right", seen)
    return found


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
def test_fit_against_plain_loops(setting, longest, looks):
    train, dev, _ = random_splits(sizes=(100, 40, 1))
    expected, weights, count = slow_fit(setting, train, dev, 3, longest)
    found, model = fit(setting, train, dev, 3, SEED, longest)
    assert found == pytest.approx(expected) and len(looks) == count
    for ours, theirs in zip(model.parameters(), weights, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-3, atol=2e-5)


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
        ([0.5, 0.4] * 2 + [0.3, 0.2, 0.7, 0.1, 0.8, 0.9], 0.7, 8),
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


def test_the_best_look_is_kept(monkeypatch):
    """It is that after 12 epochs, whatever the training does to the weights after it."""
    train, dev, _ = random_splits(sizes=(70, 5, 5))
    scripted(monkeypatch, [0.5, 0.4, 0.6, *[0.6] * 20])
    _, kept = fit(Setting(), train, dev, 3, SEED)
    scripted(monkeypatch, [0.1, 0.2, 0.3])
    _, expected = fit(Setting(), train, dev, 3, SEED, longest=12)
    scripted(monkeypatch, [0.1, 0.2])
    _, earlier = fit(Setting(), train, dev, 3, SEED, longest=8)
    assert torch.equal(kept[0].weight, expected[0].weight)
    assert not torch.equal(kept[0].weight, earlier[0].weight)


# settings


def test_grids():
    assert [s.decay for s in GRIDS["senteval"]] == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])
    assert {s.hidden for s in GRIDS["senteval"]} == {0}
    pairs = {(s.hidden, s.dropout) for s in GRIDS["mlp"]}
    assert pairs == {(h, d) for h in (50, 100, 200) for d in (0.0, 0.1, 0.2)}
    assert len(GRIDS["mlp"]) == 9 and {s.decay for s in GRIDS["mlp"]} == {0.0}
    assert list(GRIDS["linear"]) == [Setting()]


@pytest.mark.parametrize("classifier", list(GRIDS))
def test_a_task_without_a_hidden_layer(classifier):
    """WC takes SentEval's grid where the others have a hidden layer."""
    assert all(setting.hidden == 0 for setting in grid(classifier, hidden_layer=False))
    assert grid(classifier) == GRIDS[classifier]
    expected = "senteval" if classifier == "mlp" else classifier
    assert grid(classifier, hidden_layer=False) == GRIDS[expected]


@pytest.mark.parametrize(
    "accuracies, chosen",
    [
        ([0.5, 0.7, 0.7, 0.6], 1),
        ([0.7, 0.7, 0.7, 0.7], 0),
        ([0.1, 0.2, 0.3, 0.4], 3),
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


def test_dropout_is_before_the_sigmoid_and_only_for_training():
    model = network(Setting(hidden=50, dropout=0.5), torch.zeros(1, 4), 2)
    kinds = [type(layer).__name__ for layer in model]
    assert kinds == ["Linear", "Dropout", "Sigmoid", "Linear"] and model[1].p == 0.5
    split = split_of(np.random.default_rng(1).normal(size=(300, 4)), [0] * 300)
    model.train()
    assert (classifiers.right(model, split) == classifiers.right(model, split)).all()
    assert classifiers.right(model, split).mean() == pytest.approx(
        model(split.vectors).argmax(dim=1).eq(0).float().mean().item()
    )


def test_a_large_split_is_looked_at_in_parts():
    (split,) = random_splits(sizes=(9001,))
    model = network(Setting(), split.vectors, 3)
    expected = model(split.vectors).argmax(dim=1).eq(split.labels)
    assert classifiers.right(model, split).tolist() == expected.tolist()


# vectors of which the answer is known


def with_labels(sizes=(400, 100, 200), classes=4, width=10):
    """Return splits whose vectors hold the label, among noise."""
    dice = np.random.default_rng(3)
    for size in sizes:
        labels = dice.integers(classes, size=size)
        vectors = dice.normal(size=(size, width))
        vectors[:, :classes] = 5 * np.eye(classes)[labels]
        yield split_of(vectors, labels)


@pytest.mark.parametrize("classifier", ["linear", "senteval"])
def test_a_label_by_construction_is_found(classifier):
    train, dev, test = with_labels()
    found = tuned(GRIDS[classifier], train, dev, test, 4, SEED)
    assert found.correct.all() and found.dev == 1


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
    train, dev, test = random_splits()
    first, again, other = (tuned([setting], train, dev, test, 3, seed) for seed in (1, 1, 2))
    for ours, theirs in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert first.dev == again.dev and (first.correct == again.correct).all()
    pairs = list(zip(first.model.parameters(), other.model.parameters(), strict=True))
    assert not all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_a_fit_does_not_depend_on_those_before_it():
    """The random numbers that others drew do not matter."""
    train, dev, test = random_splits()
    first = tuned([Setting(hidden=8, dropout=0.2)], train, dev, test, 3, SEED)
    torch.randn(17)
    tuned(GRIDS["linear"], train, dev, test, 3, SEED + 1)
    again = tuned([Setting(hidden=8, dropout=0.2)], train, dev, test, 3, SEED)
    assert (first.correct == again.correct).all()
    assert torch.equal(first.model[0].weight, again.model[0].weight)


def test_a_bag_of_embeddings_knows_words_but_not_the_length():
    """The mean of random vectors holds which words there are; a linear probe sees no length."""
    dice = np.random.default_rng(1)
    embeddings = dice.normal(size=(200, 256)).astype(np.float32)
    bags, words, lengths = [], [], []
    for number in range(3000):
        length = 5 + number % 20
        sentence = dice.integers(20, 200, size=length)
        sentence[0] = number // 20 % 20  # one of twenty words that are asked for
        bags.append(embeddings[sentence].mean(axis=0))
        words.append(sentence[0])
        lengths.append(length // 5 - 1)
    vectors = torch.from_numpy(np.stack(bags))
    parts = [slice(0, 2000), slice(2000, 2500), slice(2500, 3000)]

    def accuracy(labels, classes):
        splits = [Split(vectors[part], torch.tensor(np.array(labels))[part]) for part in parts]
        return tuned(grid("linear"), *splits, classes, 1).correct.mean()

    assert accuracy(words, 20) > 0.7
    assert accuracy(lengths, 4) < 0.4
