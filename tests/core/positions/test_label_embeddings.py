"""Labels of words as factors of the input equal plain loops, and stand beside other positions."""

import pytest
import torch

from fairseq_posattn.core.attention.sample_batch import LABELS, TREES, context
from fairseq_posattn.core.positions import PositionShape, joined
from fairseq_posattn.core.positions.registry import PositionSpecification

WIDTH = 6
SHAPE = PositionShape(WIDTH, 16, **LABELS)
PADDING, END = 1, 2


def built(text):
    torch.manual_seed(1)
    [position] = PositionSpecification(text).build(SHAPE)
    return position.double()


def label(ctx, kind, row, column):
    """The label of a piece, read from the tree by hand."""
    word = int(ctx.tree.words[row, column])
    if word < 0:
        return PADDING
    if word == max(ctx.tree.words[row].tolist()):
        return END
    return int(ctx.tree.labels[kind][row][word])


KINDS = [("relation_embedding", 0), ("tag_embedding", 1)]


@pytest.mark.parametrize(("name", "kind"), KINDS)
@pytest.mark.parametrize("left", [False, True])
def test_added_vectors(name, kind, left):
    position, ctx = built(f"sequence + {name}"), context(TREES, 12, left)
    found = position(ctx)
    for row in range(len(TREES)):
        for column in range(12):
            vector = position.embedding.weight[label(ctx, kind, row, column)]
            torch.testing.assert_close(found[row, column], vector)
    assert (found[~ctx.real] == 0).all()


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_joined_and_projected(name, kind):
    """W [x ; e] in loops."""
    position, ctx = built(f"sequence + {name}(fuse=concat, width=3)"), context(TREES)
    torch.nn.init.normal_(position.projection.weight)
    x = torch.randn(len(TREES), ctx.length, WIDTH, dtype=torch.double)
    found = position.change(x, ctx)
    weight = position.projection.weight.tolist()
    for row in range(len(TREES)):
        for column in range(ctx.length):
            e = position.embedding.weight[label(ctx, kind, row, column)].tolist()
            joint = [*x[row, column].tolist(), *e]
            expected = [sum(w * n for w, n in zip(line, joint, strict=True)) for line in weight]
            torch.testing.assert_close(
                found[row, column], torch.tensor(expected, dtype=torch.double)
            )


def test_a_projection_begins_with_the_input_itself():
    position = built("sequence + tag_embedding(fuse=concat)")
    torch.testing.assert_close(position.projection.weight[:, :WIDTH].float(), torch.eye(WIDTH))
    assert position.projection.weight[:, WIDTH:].abs().sum() > 0


def test_all_that_is_added_is_summed():
    """Beside tree_depth, too; what changes the input is no part of the sum."""
    text = "tree_depth + relation_embedding + tag_embedding(fuse=concat)"
    positions = [p.double() for p in PositionSpecification(text).build(SHAPE)]
    ctx = context(TREES)
    depth, relation, tag = positions
    expected = depth(ctx) + relation(ctx)
    torch.testing.assert_close(joined(None, positions, ctx), expected, check_dtype=False)
    assert tag.changes_input and not relation.changes_input


def test_needs():
    both = PositionSpecification("relation_embedding + tag_embedding")
    assert both.needs_labels == {"relations", "tags"} and both.needs_tree
    assert PositionSpecification("sequence + tree_depth").needs_labels == set()
