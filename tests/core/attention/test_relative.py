"""relative and tree_relative give what plain loops of the equations give (support/reference.py)."""

import pytest
import torch

from fairseq_posattn.core.attention import AttentionSpecification
from fairseq_posattn.core.attention.sample_batch import WIDTH, context, inputs, random_tree
from fairseq_posattn.testing.layer import HEADS, SHAPE, attention
from support import reference


def loops(module, x, parents, pieces, terms_of_head):
    """Return the output of the reference on one sentence with the parameters of the module."""
    projections = {
        name: (getattr(module, name).weight, getattr(module, name).bias)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj")
    }
    terms = [terms_of_head(head, len(x), parents, pieces) for head in range(HEADS)]
    return reference.shaw_multi_head(x, projections, HEADS, terms)[0]


def tables(mechanism, head):
    table = 0 if mechanism.options.shared_heads else head
    return mechanism.keys[table], mechanism.values[table]


@pytest.mark.parametrize("shared", ["true", "false"])
@pytest.mark.parametrize("pieces", [0, 1, 2, 7])
@pytest.mark.parametrize("names", [["relative"], ["tree_relative"], ["relative", "tree_relative"]])
def test_equals_the_loops(names, pieces, shared):
    r = 2  # smaller than the sentence: clipping is reached on both sides
    module = attention(" + ".join(f"{n}(max={r}, shared_heads={shared})" for n in names), seed=3)
    tree = random_tree(pieces, 5)
    ctx = context([tree])
    x = inputs([tree], ctx)
    parents, counts = one_based(tree)

    def terms_of_head(head, count, parents, counts):
        index = {
            "relative": lambda: reference.relative_indices(count, r),
            "tree_relative": lambda: reference.tree_indices(
                reference.relations(parents, counts), r
            ),
        }
        return [(index[n](), *tables(module.mechanisms[n], head)) for n in names]

    expected = loops(module, x[:, 0], parents, counts, terms_of_head)
    torch.testing.assert_close(module(x, ctx)[0][:, 0], expected)


def one_based(tree) -> tuple[list[int], list[int]]:
    words, parents = tree
    counts = [words.count(word) for word in range(len(parents))]
    return [0 if p == w else p + 1 for w, p in enumerate(parents)], counts


def test_heads_of_the_limited_mechanism_equal_the_loops():
    module = attention("relative(max=2, heads=1|2, shared_heads=false)")
    mechanism = module.mechanisms["relative"]
    tree = random_tree(5, 1)
    ctx = context([tree])
    x = inputs([tree], ctx)

    def terms_of_head(head, count, parents, counts):
        if head not in (1, 2):
            return []
        index = reference.relative_indices(count, 2)
        return [(index, mechanism.keys[head - 1], mechanism.values[head - 1])]

    expected = loops(module, x[:, 0], *one_based(tree), terms_of_head)
    torch.testing.assert_close(module(x, ctx)[0][:, 0], expected)


@pytest.mark.parametrize("name", ["relative", "tree_relative"])
@pytest.mark.parametrize(("options", "tables"), [("", 1), ("(shared_heads=false)", HEADS)])
def test_added_parameters(name, options, tables):
    (mechanism,) = AttentionSpecification(name + options).build(0, SHAPE)
    added = sum(p.numel() for p in mechanism.parameters())
    assert added == 2 * tables * 33 * WIDTH // HEADS


def test_published_count_of_the_convolutional_paper():
    """Relative positions add 0.1 M parameters at Base width in three layers: 33 · 512 · 2 · 3."""
    from fairseq_posattn.core.attention import AttentionShape

    specification = AttentionSpecification("relative(shared_heads=false)@0-2")
    layers = [specification.build(layer, AttentionShape(8, 64)) for layer in range(6)]
    added = sum(p.numel() for layer in layers for m in layer for p in m.parameters())
    assert added == 33 * 512 * 2 * 3
