"""What waits between fairseq's hooks: every batch gets its own trees, or there is an error."""

import numpy as np
import pytest
import torch

from fairseq_posattn.text.live.pending import NewTrees, PendingTrees
from fairseq_posattn.text.live.segmented import spelled
from fairseq_posattn.trees import Sentence, TreeError

TEXTS = ["a b", "c d", "e", "f g h"]
PARENTS = [[0, 1], [2, 0], [0], [2, 0, 2]]


def new_trees(chosen=range(4)) -> NewTrees:
    lines = [spelled(TEXTS[k], "@@") for k in chosen]
    found = [Sentence(TEXTS[k].split(), PARENTS[k]) for k in chosen]
    return NewTrees(lines, lambda asked: [found[k] for k in asked])


def collate(trees: NewTrees, numbers: list[int]) -> torch.Tensor:
    """What the dataset does when fairseq makes a batch: it reads the trees, then adds the batch."""
    records, _ = trees.read(np.array(numbers))
    tokens = torch.tensor([[100 + k for k in numbers]])
    fields = {"src_tokens": tokens, "source_tree": torch.tensor(records["parent"].tolist())}
    trees.add_batch({"id": torch.tensor(numbers), "net_input": fields})
    return tokens


def attached(pending: PendingTrees, chosen=range(4)) -> NewTrees:
    pending.expect(new_trees(chosen))
    return pending.attach(len(chosen))


def test_batches_in_their_order():
    pending = PendingTrees()
    trees = attached(pending)
    first, second = collate(trees, [3, 0]), collate(trees, [1, 2])
    found = pending.for_batch(first)
    assert found.source_tree.tolist() == [*PARENTS[3], *PARENTS[0]]
    assert [(k, tree.parents) for k, tree in found.sentences] == [(0, PARENTS[0]), (3, PARENTS[3])]
    assert pending.for_batch(second).source_tree.tolist() == [*PARENTS[1], *PARENTS[2]]
    with pytest.raises(TreeError, match="this batch has no trees"):
        pending.for_batch(second)


def test_a_batch_may_be_a_copy():
    """On an accelerator it is a copy."""
    pending = PendingTrees()
    tokens = collate(attached(pending), [2])
    assert pending.for_batch(tokens.clone()).tokens is tokens


@pytest.mark.parametrize(
    "change",
    [lambda t: t + 1, lambda t: t[:, :1], lambda t: t.new_zeros(0, 0)],
    ids=["others", "fewer", "none"],
)
def test_another_batch_is_refused(change):
    """It does not use up the trees of the batch that is due."""
    pending = PendingTrees()
    trees = attached(pending)
    first, second = collate(trees, [3, 0]), collate(trees, [1, 2])
    for other in (second, change(first)):
        with pytest.raises(TreeError, match="not the next batch"):
            pending.for_batch(other)
    assert pending.for_batch(first).tokens is first


def test_numbers_go_on_from_buffer_to_buffer():
    pending = PendingTrees()
    numbers = []
    for _ in range(3):
        tokens = collate(attached(pending, [1, 3]), [1, 0])
        numbers += [number for number, _ in pending.for_batch(tokens).sentences]
    assert numbers == [0, 1, 2, 3, 4, 5]


def test_batches_of_an_abandoned_dataset():
    """fairseq makes batches in advance, even when nobody asks for them any more."""
    pending = PendingTrees()
    old = attached(pending)
    collate(old, [0])
    new = attached(pending, [2])
    due = collate(new, [0])
    collate(old, [1])
    assert [tree.parents for _, tree in pending.for_batch(due).sentences] == [[0]]
    with pytest.raises(TreeError, match="this batch has no trees"):
        pending.for_batch(due)


@pytest.mark.parametrize("sentences", [3, 5])
def test_a_dataset_of_other_sentences(sentences):
    pending = PendingTrees()
    pending.expect(new_trees())
    with pytest.raises(TreeError, match="pass them to new_sentences"):
        pending.attach(sentences)


def test_a_dataset_of_lines_that_nobody_announced():
    pending = PendingTrees()
    with pytest.raises(TreeError, match="pass them to new_sentences"):
        pending.attach(0)
    attached(pending)
    with pytest.raises(TreeError, match="pass them to new_sentences"):
        pending.attach(4)  # trees are for one dataset


def test_a_batch_before_any_dataset():
    with pytest.raises(TreeError, match="this batch has no trees"):
        PendingTrees().for_batch(torch.zeros(1, 1))
