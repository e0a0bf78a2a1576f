"""The loss with smoothed labels equals plain loops, and fairseq's own, with its gradient."""

import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_posattn.core import label_smoothing
from fairseq_posattn.core.label_smoothing import (
    TableGradient,
    projected_cross_entropy,
    smoothed_cross_entropy,
)

IGNORED = 1


def example(rows=7, words=11, dtype=torch.double):
    torch.manual_seed(3)
    scores = (3 * torch.randn(rows, words, dtype=torch.double)).to(dtype)
    targets = torch.randint(words, (rows,))
    targets[[0, rows - 2]] = IGNORED
    return scores.requires_grad_(), targets


def by_loops(scores, targets, smoothing):
    """The two sums, and the gradient of the first one by each score."""
    words = len(scores[0])
    share = smoothing / (words - 1)
    loss = nll = 0.0
    gradient = [[0.0] * words for _ in scores]
    for row, target in enumerate(targets):
        if target == IGNORED:
            continue
        whole = sum(math.exp(s) for s in scores[row])
        logs = [s - math.log(whole) for s in scores[row]]
        nll -= logs[target]
        loss += -(1 - smoothing - share) * logs[target] - share * sum(logs)
        for word in range(words):
            gradient[row][word] = math.exp(logs[word]) - share
        gradient[row][target] -= 1 - smoothing - share
    return loss, nll, gradient


@pytest.fixture(params=[1, 25, 10**6], ids=["single rows", "two rows", "whole"])
def part(request, monkeypatch):
    """How many scores are worked on at once; two rows do not divide the rows of the example."""
    monkeypatch.setitem(label_smoothing.PART, "cpu", request.param)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_loops(part, smoothing):
    scores, targets = example()
    expected = by_loops(scores.tolist(), targets.tolist(), smoothing)
    loss, nll = smoothed_cross_entropy(scores * 1, targets, smoothing, IGNORED)
    assert (loss.item(), nll.item()) == pytest.approx(expected[:2])
    assert not nll.requires_grad
    (2 * loss).backward()
    torch.testing.assert_close(scores.grad, 2 * torch.tensor(expected[2], dtype=torch.double))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_as_fairseq(part, dtype):
    found, expected = [], []
    for sums, way in ((found, smoothed_cross_entropy), (expected, None)):
        scores, targets = example(dtype=dtype)
        if way:
            loss, nll = way(scores * 1, targets, 0.1, IGNORED)
        else:
            probabilities = torch.log_softmax(scores.float(), dim=-1)
            loss, nll = label_smoothed_nll_loss(probabilities, targets, 0.1, IGNORED)
        (1024 * loss).backward()  # as the scaled loss of training in half precision
        sums += [loss, nll, scores.grad]
    torch.testing.assert_close(found, expected, check_dtype=True)


def test_small_gradients_in_half_precision():
    """A probability too small for float16 has a gradient once the loss is scaled."""
    scores = torch.tensor([[0.0, 0.0, -20.0]], dtype=torch.float16, requires_grad=True)
    loss, _ = smoothed_cross_entropy(scores * 1, torch.tensor([0]), 0.0, IGNORED)
    (2.0**15 * loss).backward()
    assert scores.grad[0, 2] > 0


def test_the_gradient_takes_the_place_of_the_scores():
    leaf, targets = example(dtype=torch.float32)
    scores = leaf * 1
    loss, _ = smoothed_cross_entropy(scores, targets, 0.1, IGNORED)
    before = scores.detach().clone()
    assert torch.equal(before, leaf.detach())
    loss.backward(retain_graph=True)
    assert torch.equal(scores, leaf.grad) and not torch.equal(scores, before)
    with pytest.raises(RuntimeError, match="call it only once"):
        loss.backward()


def test_nothing_changes_where_no_gradient_is_wanted():
    scores, targets = example()
    before = scores.detach().clone()
    with torch.no_grad():
        smoothed_cross_entropy(scores, targets, 0.1, IGNORED)
    assert torch.equal(scores.detach(), before)


def projected_example(dtype=torch.double):
    """Features and a table whose product is the scores of `example`."""
    scores, targets = example(dtype=dtype)
    features = torch.eye(*scores.shape[:1], dtype=dtype, requires_grad=True)
    table = scores.detach().T.clone().requires_grad_()  # V D
    return features, table, targets


@pytest.fixture(params=[1, 25, 10**6], ids=["a row", "two rows", "all rows"])
def made(request, monkeypatch):
    """How many scores are computed at once."""
    monkeypatch.setitem(label_smoothing.MADE, "cpu", request.param)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_loops_over_projected_features(part, made, smoothing):
    features, table, targets = projected_example()
    scores = (features @ table.T).tolist()
    expected = by_loops(scores, targets.tolist(), smoothing)
    loss, nll = projected_cross_entropy(features, table, targets, smoothing, IGNORED)
    assert (loss.item(), nll.item()) == pytest.approx(expected[:2])
    assert not nll.requires_grad
    (2 * loss).backward()
    of_scores = 2 * torch.tensor(expected[2], dtype=torch.double)
    torch.testing.assert_close(features.grad, of_scores @ table.detach())
    torch.testing.assert_close(table.grad, of_scores.T @ features.detach())


def test_many_parts_in_half_precision(monkeypatch):
    """The gradient of the table is rounded once, not with each of its thousand parts."""
    monkeypatch.setitem(label_smoothing.MADE, "cpu", 1)
    torch.manual_seed(1)
    features, table = torch.rand(1000, 4), torch.rand(9, 4)
    targets = torch.randint(2, 9, (1000,))
    gradients = []
    for dtype in (torch.bfloat16, torch.double):
        given = [x.bfloat16().to(dtype).requires_grad_() for x in (features, table)]
        loss, _ = projected_cross_entropy(*given, targets, 0.1, IGNORED)
        loss.backward()
        assert all(x.grad.dtype == dtype for x in given)
        gradients.append([x.grad.double() for x in given])
    for found, expected in zip(*gradients, strict=True):
        assert (found - expected).norm() < 0.005 * expected.norm()


def test_the_gradient_of_the_table_goes_to_a_total():
    features, table, targets = projected_example()
    loss, _ = projected_cross_entropy(features, table, targets, 0.1, IGNORED)
    loss.backward()
    expected, table.grad, total = table.grad, None, TableGradient()
    loss, _ = projected_cross_entropy(features, table, targets, 0.1, IGNORED, total)
    loss.backward()
    assert table.grad is None
    torch.testing.assert_close(total.take(), expected)


def test_projected_features_without_a_gradient_or_without_any_target():
    features, table, targets = projected_example()
    expected = smoothed_cross_entropy(features @ table.T, targets, 0.1, IGNORED)
    with torch.no_grad():
        torch.testing.assert_close(
            projected_cross_entropy(features, table, targets, 0.1, IGNORED), expected
        )
    ignored = torch.full_like(targets, IGNORED)
    loss, nll = projected_cross_entropy(features, table, ignored, 0.1, IGNORED)
    loss.backward()
    assert (loss, nll) == (0, 0)
    assert not features.grad.any() and not table.grad.any()
