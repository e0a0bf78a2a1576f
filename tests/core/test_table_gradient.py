"""A table that is used several times has the gradient that torch sums up for it."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_posattn.core.label_smoothing import TableGradient, rows, shared

PADDING = 1
WORDS = torch.tensor([[3, 0, PADDING, 3], [3, PADDING, PADDING, 0]])


def used(weight, padding, apart=False, product=True):
    """A sum of two embeddings in a table and, if wanted, of another use that torch knows alone."""
    total = TableGradient()
    table = weight if apart else shared(weight, total)
    loss = 0.0
    for factor in (1, 10):
        if apart:
            found = F.embedding(WORDS, weight, padding_idx=padding)
        else:
            found = rows(table, WORDS, padding, total)
        loss = loss + factor * (found * torch.arange(1.0, 3.0)).cos().sum()
    return loss + (table.sin() @ torch.ones(2)).sum() if product else loss


@pytest.mark.parametrize("padding", [None, PADDING])
@pytest.mark.parametrize("product", [True, False])
def test_as_torch(padding, product):
    torch.manual_seed(5)
    weight = torch.nn.Parameter(torch.randn(5, 2))
    gradients = []
    for apart in (True, False):
        weight.grad = None
        for _ in range(2):  # the second batch of an update adds to the first
            used(weight, padding, apart, product).backward()
        gradients.append(weight.grad)
    torch.testing.assert_close(*gradients)


def test_nothing_was_used():
    """A batch of which the table is no part leaves it without a gradient."""
    weight, other = torch.nn.Parameter(torch.randn(5, 2)), torch.ones(1, requires_grad=True)
    table = shared(weight, TableGradient())
    (table.detach().sum() * other).sum().backward()
    assert weight.grad is None and other.grad is not None


def test_rows_are_added_in_place():
    """No second tensor of the size of the table is made."""
    weight, total = torch.nn.Parameter(torch.randn(5, 2)), TableGradient()
    rows(shared(weight, total), WORDS, None, total).sum().backward()
    first = torch.zeros(5, 2)
    total.add(first)
    total.add_rows(weight, WORDS.flatten(), torch.ones(8, 2))
    total.add(torch.ones(5, 2))
    assert total.take() is first and total.take() is None
    assert first[3].tolist() == [4, 4]
    assert weight.grad[:, 0].tolist() == [2, 3, 0, 3, 0]
