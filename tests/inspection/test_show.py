"""The rows of a picture: their numbers against loops from the equations, order and notes."""

import numpy as np
import pytest
import torch

from fairseq_posattn.core.attention import (
    MECHANISMS,
    AttentionShape,
    AttentionSpecification,
    ScoreChange,
    WeightChange,
)
from fairseq_posattn.errors import InputError
from fairseq_posattn.inspection.picture import make_layer, make_picture, move_neutral, word_vectors
from fairseq_posattn.inspection.rows import Kind, limits, scale_labels
from fairseq_posattn.inspection.sentence import BUILT_IN, END, context, sentence_of_text
from fairseq_posattn.inspection.trace import trace
from fairseq_posattn.trees.sentence import Sentence
from support import reference
from support import reference_mechanisms as slow
from support.panels import HEADS, matrices

SENTENCE = Sentence(["the", "cat", "sleeps", "on", "the"], [2, 3, 0, 5, 3])
TREE = (SENTENCE.parents, [1] * 5)
PIECES = range(6)


def layer_of(specification, seed=3):
    """A layer whose mechanisms do something, with the input and the context of the sentence."""
    words = [*SENTENCE.words, END]
    shape = AttentionShape(HEADS, 2, len(words))  # the loops are slow
    layer = make_layer(AttentionSpecification(specification), 0, shape, seed)
    x, ctx = word_vectors(words, shape.width, seed), context(SENTENCE)
    move_neutral(list(layer.mechanisms.values()), shape, x, ctx, seed)
    return layer, x, ctx


def rows_of(specification):
    return trace(*layer_of(specification))


def only(rows, title):
    [row] = [row for row in rows if row.title.startswith(title)]
    return matrices(row)


def near(found, expected):
    expected = torch.as_tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found, expected.expand_as(found))


@pytest.mark.parametrize(
    "specification",
    [
        *("relative(max=2)", "tree_relative(shared_heads=false)", "window(size=3, across=3)"),
        *("local_hard(reach=2) + relative(max=2)", "block", "temperature", "convolved_1d"),
        "convolved_2d + parent_scaled + gaussian",  # the order of the pipeline, not of the list
        "parent_scaled + window(size=3, across=3) + direct_relative",
    ],
)
def test_the_weights_at_both_ends_are_those_of_the_layer(specification):
    """Those of a layer are compared with loops in tests/core."""
    layer, x, ctx = layer_of(specification)
    rows = trace(layer, x, ctx)
    assert [rows[0].kind, rows[-1].kind] == [Kind.WEIGHTS, Kind.WEIGHTS]
    near(matrices(rows[-1]), layer(x, ctx, need_weights=True)[1][0].detach())
    q, k, _ = (part[0].detach() for part in layer.project(x))
    near(matrices(rows[0]), (q @ k.transpose(1, 2) / q.size(-1) ** 0.5).softmax(dim=-1))


@pytest.mark.parametrize(
    "specification",
    ["relative(max=2)", "tree_relative(shared_heads=false)", "local_soft", "direct_relative"],
)
def test_biases_are_those_of_the_mechanism(specification):
    layer, x, ctx = layer_of(specification)
    [mechanism] = layer.mechanisms.values()
    bias = mechanism.bias(layer.project(x)[0], ctx)[0].detach()
    near(only(trace(layer, x, ctx), "bias added to the scores"), bias)


def test_the_bell_of_local_hard():
    layer, x, ctx = layer_of("local_hard(reach=2)")
    [mechanism] = layer.mechanisms.values()
    ones = torch.ones(1, HEADS, len(PIECES), len(PIECES), dtype=torch.double)
    bells = mechanism.change_weights(ones, layer.project(x)[0], ctx)[0].detach()
    near(only(trace(layer, x, ctx), "factor of the weights"), bells)


def table(function):
    return torch.tensor([[function(i, j) for j in PIECES] for i in PIECES])


def test_masks():
    near_diagonal, blocks = (lambda i, j: abs(i - j) <= 1), (lambda i, j: i // 3 == j // 3)
    near(only(rows_of("window(size=3)"), "which keys"), table(near_diagonal))
    near(only(rows_of("block"), "which keys"), table(blocks))


def test_heads_that_are_alike_are_shown_once():
    [row] = [row for row in rows_of("directional(strict=true)") if row.kind == Kind.MASK]
    assert [(panel.label, panel.column) for panel in row.panels] == [
        ("heads 0–1", 0),
        ("heads 2–3", 2),
    ]
    assert torch.as_tensor(row.panels[0].values).equal(table(lambda i, j: j < i))
    assert torch.as_tensor(row.panels[1].values).equal(table(lambda i, j: j > i))


def test_a_mechanism_on_some_heads_is_shown_on_these():
    [row] = [row for row in rows_of("direct_relative(heads=1|3)") if row.kind == Kind.SIGNED]
    assert [(panel.label, panel.column) for panel in row.panels] == [("head 1", 1), ("head 3", 3)]


def test_relations():
    found = only(rows_of("relative(max=2)"), "relation")
    near(found, table(lambda i, j: reference.clip(j - i, 2)))
    found = only(rows_of("tree_relative"), "relation")
    near(found, torch.tensor(reference.relations(*TREE)))


def test_the_size_of_what_is_added_to_values():
    layer, x, ctx = layer_of("relative(max=2)")
    values = layer.mechanisms["relative"].values[0].detach()
    expected = table(lambda i, j: float(values[reference.relative_index(i, j, 2)].norm()))
    near(only(trace(layer, x, ctx), "norm of the term added"), expected)


def test_nothing_is_added_to_the_value_of_a_key_that_a_mask_forbids():
    rows = rows_of("relative(max=2) + window(size=3)")
    seen = only(rows, "which keys a query may attend to")
    added = only(rows, "norm of the term added to the value")
    assert torch.equal(added > 0, seen)


def test_the_factor_around_the_parent():
    part = slow.ParentScaled(*TREE)
    found = only(rows_of("parent_scaled"), "factor of the scores")
    near(found, table(lambda i, j: float(part.change(1.0, 0, i, j))))


def slow_field(function, x):
    """Return the norms of the gradients, as shares of a row: one output number after the other."""
    jacobian = torch.autograd.functional.jacobian(function, x)  # T 1 C T 1 C
    norms = [[float(jacobian[i, 0, :, j, 0].norm()) for j in PIECES] for i in PIECES]
    return torch.tensor([[norm / sum(row) for norm in row] for row in norms])


def test_receptive_fields():
    layer, x, ctx = layer_of("cnn(layers=1, kernel=3)")
    found = only(trace(layer, x, ctx), "influence of each word")
    near(found, slow_field(lambda x: layer.before(x, ctx), x))
    assert torch.equal(found[0] > 0, table(lambda i, j: abs(i - j) <= 1))
    layer, x, ctx = layer_of("block")
    found = only(trace(layer, x, ctx), "influence of each word")
    near(found, slow_field(lambda x: layer(x, ctx)[0], x))
    assert (found > 0).all()  # through the vectors of the blocks


def test_keys_of_several_heads_in_one_softmax():
    [row] = [row for row in rows_of("window(size=3, across=3)") if "several heads" in row.title]
    labels = [panel.blocks for panel in row.panels]
    assert labels[0] == ("none", "head 0", "head 1") and labels[3] == ("head 2", "head 3", "none")
    window = table(lambda i, j: abs(i - j) <= 1)
    blocks = torch.as_tensor(row.panels[1].values).unflatten(-1, (3, -1)).unbind(1)
    assert all(block.equal(window) for block in blocks)
    assert not row.panels[0].values[:, :6].any()


def test_rows_stand_in_the_order_of_the_pipeline():
    rows = rows_of("convolved_2d + window(size=3) + relative(max=2) + temperature + cnn")
    assert [(row.mechanism, row.kind) for row in rows] == [
        ("", Kind.WEIGHTS),
        ("cnn", Kind.FIELD),
        ("temperature", Kind.WEIGHTS),
        ("relative", Kind.RELATION),
        ("relative", Kind.SIGNED),
        ("window", Kind.MASK),
        ("", Kind.WEIGHTS),  # after the softmax, before they are changed
        ("convolved_2d", Kind.WEIGHTS),
        ("relative", Kind.SIZE),
        ("", Kind.WEIGHTS),
    ]
    assert rows[-1].title == "resulting attention weights"
    assert all(map(np.array_equal, matrices(rows[-1]), matrices(rows[-3])))
    assert rows_of("window + gaussian")[-1].title == "resulting attention weights"


@pytest.mark.parametrize("specification", ["temperature", "convolved_2d"])
def test_the_same_weights_are_not_shown_twice(specification):
    titles = [row.title for row in rows_of(specification) if row.kind == Kind.WEIGHTS]
    assert len(titles) == 2 and "without any mechanism" in titles[0]
    assert titles[1].endswith("this is the result")


def test_weights_share_a_scale_and_large_biases_do_not_hide_small_ones():
    rows = rows_of("local_soft")
    ends = limits(rows)
    assert ends[0] == ends[-1] == max(rows[0].largest, rows[-1].largest)
    [(bias, end)] = [(r, e) for r, e in zip(rows, ends, strict=True) if r.kind == Kind.SIGNED]
    assert bias.largest > end == 5
    assert scale_labels(bias, end) == ["≤ −5", "0", "≥ 5"]


# What a picture says of itself.


def test_the_same_seed_draws_the_same_and_another_one_does_not():
    state = torch.random.get_rng_state()
    one, again, other = (make_picture("relative", SENTENCE, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(matrices(one.rows[2]), matrices(again.rows[2]))
    assert not torch.allclose(matrices(one.rows[2]), matrices(other.rows[2]))
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("specification", ["temperature", "direct_absolute"])
def test_what_starts_without_an_effect_is_moved_and_the_picture_says_so(specification):
    picture = make_picture(specification, SENTENCE)
    assert any("the initial parameters have no effect" in note for note in picture.notes)
    assert not torch.allclose(matrices(picture.rows[0]), matrices(picture.rows[-1]))


@pytest.mark.parametrize("specification", ["gaussian", "convolved_2d", "cnn", "block"])
def test_what_has_an_effect_is_shown_at_its_start(specification):
    picture = make_picture(specification, SENTENCE)
    assert any("the parameters are untrained" in note for note in picture.notes)
    assert not any("initial parameters have no effect" in note for note in picture.notes)


def test_a_tree_is_drawn_where_it_matters():
    assert make_picture("tree_relative + window", BUILT_IN).tree.words == BUILT_IN.words
    assert make_picture("tree_supervised", sentence_of_text("no tree")).tree is None
    assert make_picture("window", BUILT_IN).tree is None


def test_the_layer_is_the_first_one_where_something_acts():
    picture = make_picture("window@2-3 + gaussian@3", SENTENCE)
    assert (picture.title, picture.notes[0]) == (
        "window(size=11, across=1)@2-3",
        "Layer 2, 4 heads.",
    )
    picture = make_picture("window@2-3 + gaussian@3", SENTENCE, layer=3)
    assert [about.name for about in picture.mechanisms] == ["window", "gaussian"]


def test_there_are_as_many_heads_as_the_specification_names():
    assert "6 heads" in make_picture("gaussian(heads=0|5)", SENTENCE).notes[0]
    with pytest.raises(InputError, match=r"--heads 4: .* refers to head 5.* draw at least 6"):
        make_picture("gaussian(heads=0|5)", SENTENCE, heads=4)


# Mechanisms of one's own.


class Plus(ScoreChange):
    """Adds the position of the key to the score.

    Further lines are not shown.
    """

    name = "plus"
    equation = "s_ij + j"

    def change_scores(self, scores, q, ctx):
        return scores + ctx.positions[:, None, None, :]

    def matrices(self, q, ctx):
        return {"whole": ctx.distances, "yes or no": ctx.distances > 0, "part": ctx.distances / 2}


class Scaled(ScoreChange):
    """Multiplies the scores by a number that is learnt, 1 at its start."""

    name = "scaled"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gamma = torch.nn.Parameter(torch.ones(self.head_count, 1, 1))

    def change_scores(self, scores, q, ctx):
        return scores * self.gamma


class Sparse(WeightChange):
    """Small weights become zero."""

    name = "sparse"

    def change_weights(self, weights, q, ctx):
        return weights.masked_fill(weights < 0.02, 0.0)


@pytest.fixture
def own(monkeypatch):
    for mechanism in (Plus, Scaled, Sparse):
        monkeypatch.setitem(MECHANISMS, mechanism.name, mechanism)


def test_a_mechanism_of_ones_own_with_matrices(own):
    picture = make_picture("plus", SENTENCE)
    [about] = picture.mechanisms
    assert about.summary == "Adds the position of the key to the score."
    assert about.equation == "s_ij + j"
    rows = {row.title: row for row in picture.rows}
    kinds = [rows[title].kind for title in ("whole", "yes or no", "part")]
    assert kinds == [Kind.RELATION, Kind.MASK, Kind.SIGNED]
    before, after = (only(picture.rows, f"scores {when}") for when in ("before", "after"))
    near(after - before, table(lambda i, j: float(j)))  # no factor: both are shown


@pytest.mark.parametrize("others, drawn", [("", ["new attention weights"]), ("window(size=3)", [])])
def test_what_leaves_all_weights_of_a_window_is_no_factor_of_one(others, drawn, own):
    """Of the few weights in a window none is small, so there is nothing to draw."""
    rows = make_picture(" + ".join(["sparse", *others.split()]), SENTENCE).rows
    assert [row.title.partition(";")[0] for row in rows if row.mechanism == "sparse"] == drawn


def test_weights_after_the_softmax_are_those_before_any_change():
    """The second change finds weights that the first has made smaller; their rows sum to less."""
    specification = "local_hard(reach=2) + convolved_2d"
    near(only(rows_of(specification), "attention weights after the softmax").sum(dim=-1), 1)


@pytest.mark.parametrize("specification", ["scaled", "scaled + window(size=3)"])
def test_a_factor_that_starts_at_one_is_moved(specification, own):
    """Steps and the fused kernel, between which this mechanism chooses, round in other ways."""
    picture = make_picture(specification, SENTENCE)
    assert (only(picture.rows, "factor of the scores") != 1).all()
    assert any("scaled: the initial parameters have no effect" in note for note in picture.notes)
