"""All mechanisms, and some together, give what the equations' loops give (reference_mechanisms)."""

import random
from dataclasses import replace

import pytest
import torch

from fairseq_posattn.core.attention import (
    MECHANISMS,
    AttentionContext,
    AttentionShape,
    AttentionSpecification,
    build_self_attention,
)
from fairseq_posattn.core.attention.sample_batch import (
    WIDTH,
    context,
    inputs,
    random_tree,
    some_labels,
)
from fairseq_posattn.core.source_tree import UNKNOWN_LABEL
from fairseq_posattn.errors import InputError
from fairseq_posattn.testing.layer import HEADS, attention
from support import reference_mechanisms as slow
from support.distributions import check_keras_normal, check_normal, check_uniform
from support.reference import one_based

D = WIDTH // HEADS


@pytest.mark.parametrize("name", [name for name, one in MECHANISMS.items() if one.needs_tree])
def test_a_batch_without_trees_is_refused(name):
    layer = build_self_attention(name, WIDTH, HEADS, relations=9)
    ctx = AttentionContext(5, torch.device("cpu"))
    with pytest.raises(InputError, match="but the batch contains none; pass"):
        layer(layer.before(torch.rand(5, 2, WIDTH), ctx), ctx)


def of_all_heads(mechanism, parameter):
    """Return a parameter with a row for every head, given one with a row for each acting head."""
    if mechanism.heads is None:
        return parameter
    rows = torch.zeros(HEADS, *parameter.shape[1:], dtype=parameter.dtype)
    return rows.index_copy(0, torch.tensor(mechanism.heads), parameter)


def ratio_of(mechanism):
    return getattr(mechanism.options, "ratio", 1.0)  # of cross-attention alone


def pair_of_tables(m):
    shared = m.options.shared_heads
    return [x.expand(HEADS, -1, -1) if shared else of_all_heads(m, x) for x in (m.keys, m.values)]


def tables(m):
    return [*pair_of_tables(m), m.options.max]


def direct_relative(m, *_):
    part = slow.DirectRelativeSymmetric if m.options.symmetric else slow.DirectRelative
    return part(of_all_heads(m, m.scores), heads=m.heads)


def convolved_1d(m, *_):
    weight = m.weight.permute(0, 3, 2, 1)  # H j' j u
    rows = (of_all_heads(m, weight), of_all_heads(m, m.bias))
    return slow.Convolved1d(*rows, heads=m.heads)


def convolved_2d(m, *_):
    rows = (of_all_heads(m, m.weight[:, 0]), of_all_heads(m, m.bias))
    return slow.Convolved2d(*rows, heads=m.heads)


def local_hard(m, *_):
    rows = (of_all_heads(m, m.hidden), of_all_heads(m, m.centre))
    return slow.LocalHard(*rows, m.options.reach, heads=m.heads)


def alibi(m, *_):
    side = {"symmetric": HEADS, "one_sided": HEADS // 2}
    if m.options.sides == "learnt":
        before, after = (of_all_heads(m, torch.sigmoid(x)) for x in m.slopes)
        return slow.Alibi(before, after, m.options.offset, heads=m.heads)
    count = side[m.options.sides]
    slopes = torch.tensor(slow.alibi_slopes(count) * (HEADS // count), dtype=torch.float64)
    sides = (-1,) * 2 + (1,) * 2 if count < HEADS else ()
    return slow.Alibi(slopes, slopes, m.options.offset, sides, heads=m.heads)


def t5_bias(m, *_):
    table = of_all_heads(m, m.table.scores)
    return slow.T5Bias(table, m.options.max, m.options.scaled, heads=m.heads)


def rope(m, *_):
    return slow.Rope(m.options.base, m.options.layout == "halves", heads=m.heads)


def tree_distance(m, *tree):
    if m.options.kind == "gaussian":
        return slow.TreeDistanceGaussian(*tree, of_all_heads(m, m.log_sigma.exp()), heads=m.heads)
    return slow.TreeDistanceBias(*tree, of_all_heads(m, m.scores), heads=m.heads)


def tree_window(m, *tree):
    return slow.TreeWindow(*tree, m.options.hops, m.options.direction, heads=m.heads)


def relations_of(parents):
    """Return the relations that the sample batch gives the words of a tree, counted from 0."""
    own = [parent - 1 if parent else word for word, parent in enumerate(parents)]
    return (some_labels(torch.tensor([own], dtype=torch.long))[0, 0] - UNKNOWN_LABEL).tolist()


def tree_labels(m, parents, pieces):
    labels = relations_of(parents)
    return slow.TreeLabels(*pair_of_tables(m), m.names, parents, pieces, labels, heads=m.heads)


def tree_supervised(m, *_):
    between = torch.zeros(HEADS, D, D, dtype=torch.float64)
    if m.between is not None:
        between = of_all_heads(m, m.between)
    return slow.Biaffine(between, heads=m.heads)


def disentangled(m, *_):
    tables = {
        name: of_all_heads(m, m.shared.vectors @ getattr(m, name)) if hasattr(m, name) else None
        for name in ("to_keys", "to_queries")
    }
    program = m.options.p2c == "program"
    return slow.Disentangled(*tables.values(), m.options.max, program, heads=m.heads)


PARTS = {  # mechanism, parents and pieces of the words -> the slow one
    "window": lambda m, *_: slow.Window(
        m.options.size, m.options.across, ratio_of(m), heads=m.heads
    ),
    "directional": lambda m, *_: slow.Directional(m.options.strict, heads=m.heads),
    "gaussian": lambda m, *_: slow.Gaussian(
        of_all_heads(m, m.log_sigma.exp()), ratio_of(m), heads=m.heads
    ),
    "local_hard": local_hard,
    "local_soft": lambda m, *_: slow.LocalSoft(m.hidden.weight, m.centre, m.width),
    "temperature": lambda m, *_: slow.Temperature(
        *(of_all_heads(m, gamma) for gamma in m.gamma), heads=m.heads
    ),
    "direct_absolute": lambda m, *_: slow.DirectAbsolute(of_all_heads(m, m.scores), heads=m.heads),
    "direct_relative": direct_relative,
    "convolved_1d": convolved_1d,
    "convolved_2d": convolved_2d,
    "relative": lambda m, *_: slow.Relative(*tables(m), heads=m.heads),
    "tree_relative": lambda m, *tree: slow.TreeRelative(*tables(m), *tree, heads=m.heads),
    "parent_scaled": lambda m, *tree: slow.ParentScaled(*tree, heads=m.heads),
    "alibi": alibi,
    "t5_bias": t5_bias,
    "rope": rope,
    "disentangled": disentangled,
    "tree_window": tree_window,
    "tree_depth_bias": lambda m, *tree: slow.TreeDepthBias(
        *tree, of_all_heads(m, m.scores), heads=m.heads
    ),
    "tree_distance": tree_distance,
    "deps_san": lambda m, *tree: slow.DepsSan(
        *tree, m.options.sigma, m.options.furthest if m.training else 0, heads=m.heads
    ),
    "tree_depth_relative": lambda m, *tree: slow.TreeDepthRelative(
        *tables(m), *tree, heads=m.heads
    ),
    "tree_labels": tree_labels,
    "tree_supervised": tree_supervised,
    "brackets": lambda m, *_: slow.Brackets(*tables(m)),
    "tree_walk": lambda m, *tree: slow.TreeWalk(*tree, m.keys, getattr(m, "first_keys", None)),
}


def projections(module):
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    return {name: (getattr(module, name).weight, getattr(module, name).bias) for name in names}


def parts(module, tree, depths=None):
    """depths: how many brackets are open after each piece, of the target across."""
    found = [PARTS[n](m, *one_based(tree)) for n, m in module.mechanisms.items() if n in PARTS]
    for part in found:
        part.depths = depths
    return found


def equal_to_loops(module, x, ctx, of_loops):
    """Compare output and weights with those of the loops; return the output of the loops."""
    expected, expected_weights = slow.multi_head(x[:, 0], projections(module), HEADS, of_loops)
    out, weights = module(x, ctx, need_weights=True)
    torch.testing.assert_close(out[:, 0], expected)
    torch.testing.assert_close(weights[0], expected_weights)
    torch.testing.assert_close(module(x, ctx)[0][:, 0], expected)  # through the fused kernel
    return expected


def compare(specification, pieces, seed=3):
    """Output and weights, alone and in a padded batch."""
    module = attention(specification, seed)
    tree = random_tree(pieces, 5)
    ctx = context([tree])
    x = inputs([tree], ctx)
    of_loops = parts(module, tree, ctx.brackets[0].tolist())
    expected = equal_to_loops(module, x, ctx, of_loops)
    trees = [random_tree(pieces + 2, 1), tree]  # the second one with two columns of padding
    ctx = context(trees, left=True)
    in_batch = inputs(trees, ctx, left=True)
    in_batch[2:, 1] = x[:, 0]
    torch.testing.assert_close(module(in_batch, ctx)[0][2:, 1], expected)


SPECIFICATIONS = [
    *("relative(max=2)", "relative(max=2, heads=1|2, shared_heads=false)"),
    *("tree_relative(max=2)", "tree_relative(max=2, shared_heads=false)"),
    *("window(size=1)", "window(size=3)", "window(size=31)", "window(size=3, heads=0|3)"),
    *("window(size=1, across=3)", "window(size=3, across=3)"),
    "window(size=31, across=3, heads=0|2)",
    *("directional", "directional(strict=true)", "directional(heads=1-3)"),
    *("gaussian", "gaussian(heads=2)"),
    *("local_hard(reach=1)", "local_hard(reach=2, heads=1|2)"),
    "local_soft",
    *("temperature", "temperature(heads=0|1)"),
    *("direct_absolute", "direct_absolute(heads=3)"),
    *("direct_relative", "direct_relative(t=3)", "direct_relative(t=3, symmetric=true)"),
    *("convolved_1d", "convolved_1d(heads=1|2)"),
    *("convolved_2d", "convolved_2d(heads=0)"),
    *("parent_scaled", "parent_scaled(heads=1)"),
    *("alibi", "alibi(sides=one_sided)", "alibi(sides=one_sided, heads=1|2)"),
    *("alibi(sides=learnt, heads=0-2)", "alibi(offset=0.5)"),
    *("t5_bias", "t5_bias(buckets=4, max=3)", "t5_bias(buckets=8, max=5, scaled=false, heads=1)"),
    "t5_bias(shared=nothing, heads=2|3)",
    *("rope", "rope(base=2.5)", "rope(layout=halves, base=10)", "rope(heads=0|3)"),
    *("disentangled", "disentangled(max=2)"),
    "disentangled(max=3, position_to_content=false, heads=1|2)",
    *("disentangled(max=1, content_to_position=false)", "disentangled(max=3, p2c=program)"),
    *("tree_supervised", "tree_supervised(scores=biaffine)@0"),
    "tree_supervised(scores=biaffine, heads=1|3)@0",
    *("tree_labels", "tree_labels(shared_heads=false, heads=1|2)"),
    *("tree_window(hops=0)", "tree_window(hops=1)", "tree_window(hops=2, heads=1|2)"),
    *("tree_window(hops=2, direction=up)", "tree_window(hops=1, direction=down)"),
    *("tree_distance", "tree_distance(max=2, heads=0|3)", "tree_distance(kind=gaussian)"),
    "tree_distance(kind=gaussian, heads=2)",
    *("deps_san", "deps_san(sigma=2.5, furthest=1, heads=1|2)"),
    *("tree_depth_relative", "tree_depth_relative(max=1, shared_heads=false)"),
    *("tree_depth_bias", "tree_depth_bias(max=1, heads=1|2)"),
    *("brackets", "brackets(max=1, shared_heads=false)"),
]
TOGETHER = [
    "relative(max=2, shared_heads=false) + tree_relative(max=2)",
    "window(size=3, across=3) + relative(max=2) + tree_relative(max=2, shared_heads=false)",
    "window(size=3, across=3) + local_hard(reach=2) + parent_scaled + temperature",
    "relative(max=1) + parent_scaled + gaussian",  # the order of bias and change
    "parent_scaled + gaussian + relative(max=1)",
    "window(size=5) + directional + convolved_2d + convolved_1d + direct_absolute",
    "directional(strict=true) + local_hard(reach=1) + convolved_2d",
    "temperature + local_soft + direct_relative(t=3) + relative(max=2, heads=1|2)",
    "local_hard(reach=2) + convolved_1d + tree_relative",
    "rope + t5_bias(buckets=4, max=3, scaled=false) + alibi(sides=one_sided) + relative(max=2)",
    "disentangled(max=2) + window(size=3, across=3) + relative(max=1)",
    "tree_window(hops=1) + tree_distance + tree_depth_relative(max=2) + alibi + rope",
    "tree_depth_bias(max=2) + relative(max=2) + window(size=3, across=3)",
    "temperature + rope(heads=1) + alibi(offset=0.5) + window(size=3, across=3)",
    "window(size=3, across=3) + brackets(max=1) + relative(max=2, heads=1|2) + temperature",
]


@pytest.mark.long(but=[f"{spec}-6" for spec in SPECIFICATIONS])
@pytest.mark.parametrize("pieces", [0, 1, 6])  # and end of sentence
@pytest.mark.parametrize("specification", SPECIFICATIONS)
def test_equals_the_loops(specification, pieces):
    compare(specification, pieces)


@pytest.mark.parametrize("specification", TOGETHER)
def test_together_they_equal_the_loops(specification):
    compare(specification, 6)


def random_brackets(seed):
    """Return a text of twelve brackets and letters, which may be unbalanced or deep."""
    rng = random.Random(seed)
    text = "".join(rng.choice(["(()a", "()ab", "((((a", "())))a"][seed % 4]) for _ in range(12))
    return (
        ["a(b)((cd)(e)", "))(a()b)))((", "((((((((((((", "()()()a()()("][seed] if seed < 4 else text
    )


@pytest.mark.parametrize("specification", ["brackets", "brackets(max=2, shared_heads=false)"])
@pytest.mark.parametrize("seed", range(12))
def test_any_brackets_equal_the_loops(specification, seed):
    module, tree = attention(specification, seed), random_tree(11, seed)
    depths = slow.open_brackets(random_brackets(seed))
    ctx = replace(context([tree]), tree=None, brackets=torch.tensor([depths]), causal=True)
    x = inputs([tree], ctx)
    of_loops = parts(module, tree, depths)
    expected = equal_to_loops(module, x, ctx, of_loops)
    check_same_gradients(module, (module(x, ctx, need_weights=True)[0][:, 0], expected))


def check_same_gradients(module, outs):
    gradients = []
    for out in outs:
        module.zero_grad()
        out.square().sum().backward(retain_graph=True)
        gradients.append([p.grad.clone() for p in module.parameters()])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "specification", ["window(size=3, across=3)", "convolved_1d", "local_soft"]
)
def test_gradients_equal_those_of_the_loops(specification):
    module = attention(specification)
    tree = random_tree(5, 2)
    ctx = context([tree])
    x = inputs([tree], ctx)
    expected = slow.multi_head(x[:, 0], projections(module), HEADS, parts(module, tree))[0]
    check_same_gradients(module, (module(x, ctx)[0][:, 0], expected))


@pytest.mark.parametrize("pieces", [0, 1, 6])
@pytest.mark.parametrize("size", [1, 3, 9])
@pytest.mark.parametrize("others", [[], ["relative(max=2)", "gaussian"]])
def test_block_equals_the_loops(others, size, pieces):
    module = attention(" + ".join([f"block(size={size})", *others]))
    block = module.mechanisms["block"]
    tree = random_tree(pieces, 5)
    ctx = context([tree])
    x = inputs([tree], ctx)
    mine, own = projections(module), parts(module, tree)
    w3, w4 = block.gate.weight.split(WIDTH, dim=1)
    w5, w6 = block.fusion.weight.chunk(2)
    b5, b6 = block.fusion.bias.chunk(2)
    parameters = {
        "w1": (block.hidden.weight, block.hidden.bias),
        "w2": (block.pooling.weight, block.pooling.bias),
        **{"w3": w3, "w4": w4, "b3": block.gate.bias, "w5": w5, "b5": b5, "w6": w6, "b6": b6},
        "projections": projections(block.over_blocks),
    }
    expected = slow.block(
        x[:, 0],
        lambda x, blocks: slow.multi_head(x, mine, HEADS, [*own, *blocks])[0],
        size,
        parameters,
        HEADS,
    )
    torch.testing.assert_close(module(x, ctx)[0][:, 0], expected)


@pytest.mark.parametrize(
    ("longest", "size"), [(1, 2), (4, 2), (5, 3), (13, 3), (14, 4), (60, 5), (108, 6)]
)
def test_size_of_a_block_by_default(longest, size):
    """The cube root of twice the longest sentence, rounded up; padding is no piece."""
    module = attention("block").mechanisms["block"]
    tree = random_tree(longest - 1, 1)
    for ctx in (context([tree]), context([tree, random_tree(0, 1)], length=longest + 20)):
        assert module.size(ctx) == size


@pytest.mark.parametrize("pieces", [0, 1, 6])
@pytest.mark.parametrize("options", ["kernel=3", "kernel=7, layers=1", "separable=false, kernel=5"])
def test_cnn_equals_the_loops(options, pieces):
    module = attention(f"cnn({options})")
    cnn = module.mechanisms["cnn"]
    tree = random_tree(pieces, 5)
    ctx = context([tree])
    x = inputs([tree], ctx)
    layers = []
    for norm, convolution in zip(cnn.norms, cnn.convolutions, strict=True):
        layer = {"norm": (norm.weight, norm.bias)}
        if cnn.options.separable:
            depthwise, pointwise = convolution
            layer["depthwise"] = (depthwise.weight[:, 0], depthwise.bias)
            layer["pointwise"] = (pointwise.weight[..., 0], pointwise.bias)
        else:
            layer["plain"] = (convolution.weight, convolution.bias)
        layers.append(layer)
    torch.testing.assert_close(module.before(x, ctx)[:, 0], slow.cnn(x[:, 0], layers))


@pytest.mark.parametrize("pieces", [0, 1, 7])
@pytest.mark.parametrize("layers", [1, 2])
def test_tree_gcn_equals_the_loops(layers, pieces):
    module = attention(f"tree_gcn(layers={layers})")
    tree = random_tree(pieces, 5)
    ctx = context([tree])
    x = inputs([tree], ctx)
    names = ("loop", "from_parent", "from_children")
    slow_layers = [
        {name: edge_parameters(getattr(convolution, name)) for name in names}
        for convolution in module.mechanisms["tree_gcn"].convolutions
    ]
    parents, counts = one_based(tree)
    labels = [label + UNKNOWN_LABEL for label in relations_of(parents)]
    expected = slow.tree_gcn(x[:, 0], parents, counts, labels, slow_layers)
    torch.testing.assert_close(module.before(x, ctx)[:, 0], expected)


def edge_parameters(edges):
    return edges.map.weight, edges.label_bias, edges.gate.weight[0], edges.gate_bias


# parameters


def added(specification, shape, layers) -> int:
    parsed = AttentionSpecification(specification)
    parsed.check(layers, shape)
    modules = [m for layer in range(layers) for m in parsed.build(layer, shape)]
    return sum(p.numel() for m in modules for p in m.parameters())


@pytest.mark.parametrize(
    ("specification", "count"),
    [
        ("direct_absolute(t=60)", 14_400),
        ("direct_relative(t=60)", 480),
        ("direct_relative(t=60, symmetric=true)", 480),
        ("temperature", 48),
        ("convolved_1d(t=60)", 173_760),
        ("convolved_2d", 160),
    ],
)
def test_published_counts_of_convoluted_attention(specification, count):
    """The counts are those of Table 1c of Dufter et al. 2020: t = 60, 4 heads, 4 layers."""
    assert added(specification, AttentionShape(4, 91, 60), 4) == count
    if "t=60" in specification:  # t is the longest input, unless given
        shorter = specification.replace("t=60, ", "").replace("(t=60)", "")
        assert added(shorter, AttentionShape(4, 91, 60), 4) == count


@pytest.mark.parametrize(
    ("specification", "count"),
    [
        ("relative", 3 * 2 * 33 * 64),
        ("relative(shared_heads=false)", 33 * 512 * 2 * 3),  # as published: 0.1 M
        ("local_hard", 3 * 8 * (64 * 64 + 64)),
        ("local_soft", 3 * (512 * 512 + 2 * 512)),
        ("block", 3 * (14 * 512 * 512 + 9 * 512)),
        ("cnn", 3 * 2 * (512 * 512 + 7 * 512 + 4 * 512)),
        ("disentangled", 3 * (2 * 512 * 512 + 1024 * 512)),  # each layer by itself has the vectors
        ("cnn(separable=false)", 3 * 2 * (7 * 512 * 512 + 3 * 512)),
    ],
)
def test_counts_at_base_width_in_three_layers(specification, count):
    assert added(f"{specification}@0-2", AttentionShape(8, 64), 6) == count


# what cannot be


@pytest.mark.parametrize(
    ("specification", "reason"),
    [
        ("window(size=4)", "use 3 or 5"),
        ("window(across=2)", "use 1 or 3"),
        ("window(across=9)", "more than the 8 attention heads of the model"),
        ("block + window", "'window' limits attention to a window.*different layers"),
        ("convolved_1d + window(across=3)", r"with window\(across=3\).*leave out"),
        ("window(across=3)@2 + convolved_2d", r"layer 2.*with window\(across=3\)"),
        ("convolved_1d(t=60)", "t=60 has no filter for later positions.*--max-source-positions 60"),
        ("direct_relative(init=ones)", "expected zeros or glorot"),
        ("convolved_2d(init=ones)", "expected glorot or glorot_normal or identity"),
        ("alibi(sides=left)", "expected symmetric or one_sided or learnt"),
        ("t5_bias(buckets=5)", "an even number of at least 4"),
        ("t5_bias(max=16)", "use for example max=128"),
        ("t5_bias(shared=heads)", "expected layers or nothing"),
        (
            "disentangled(content_to_position=false, position_to_content=false)",
            "enable at least one",
        ),
        ("tree_distance(max=0)", "expected at least 1"),
        ("deps_san(drop=1)", "expected a number of at least 0 and less than 1"),
        ("parent_scaled(heads=8)", "the model has 8 attention heads, 0 to 7"),
    ],
)
def test_refused_with_the_reason(specification, reason):
    with pytest.raises(ValueError, match=reason):
        AttentionSpecification(specification).check(6, AttentionShape(8, 64, 1024))


@pytest.mark.parametrize(
    ("specification", "reason"),
    [
        ("window(across=3)", r"across=3 is more than the 1 attention head of the model;"),
        ("directional", "it needs a head for each direction"),
        ("alibi(sides=one_sided)", "sides=one_sided needs a head for each side"),
    ],
)
def test_one_head_is_not_enough(specification, reason):
    with pytest.raises(ValueError, match=reason):
        AttentionSpecification(specification).check(6, AttentionShape(1, 64))


@pytest.mark.parametrize("specification", ["block + window@1", "convolved_2d + window(across=3)@1"])
def test_different_layers_do_not_contradict(specification):
    name, _, other = specification.partition(" + ")
    AttentionSpecification(f"{name}@0 + {other}").check(6, AttentionShape(8, 64))


@pytest.mark.parametrize("specification", ["convolved_1d(t=5)", "direct_absolute(t=5)"])
def test_a_sentence_longer_than_t(specification):
    """Padding may go beyond t."""
    module = attention(specification)
    ctx = context([random_tree(4, 1)], length=9)
    module(inputs([random_tree(4, 1)], ctx), ctx)
    ctx = context([random_tree(5, 1)])
    with pytest.raises(ValueError, match="a sentence has 6 pieces, more than t=5"):
        module(inputs([random_tree(5, 1)], ctx), ctx)


@pytest.mark.parametrize(
    ("specification", "parameter", "deviation", "check"),
    [  # sqrt(2 / (fan in + fan out)); of the vector of R each fan is the root of its length
        ("direct_absolute(t=60, init=glorot)", "scores", 0.12910, check_keras_normal),
        ("direct_relative(t=60, init=glorot)", "scores", 0.30214, check_keras_normal),
        (
            "direct_relative(t=60, init=glorot, symmetric=true)",
            "scores",
            0.30214,
            check_keras_normal,
        ),
        ("convolved_1d(t=60)", "weight", 0.07454, check_uniform),
        ("convolved_1d(t=60, init=glorot_normal)", "weight", 0.07454, check_normal),
        ("convolved_2d", "weight", 0.33333, check_uniform),
        ("convolved_2d(init=glorot_normal)", "weight", 0.33333, check_normal),
    ],
)
def test_glorot_start(specification, parameter, deviation, check):
    torch.manual_seed(1)
    (mechanism,) = AttentionSpecification(specification).build(0, AttentionShape(2000, 4, 60))
    check(getattr(mechanism, parameter), deviation)


def test_other_starts():
    shape = AttentionShape(8, 64)
    (gaussian,) = AttentionSpecification("gaussian").build(0, shape)
    torch.testing.assert_close(gaussian.log_sigma.exp() ** 2, torch.full((8,), 100.0))
    (temperature,) = AttentionSpecification("temperature").build(0, shape)
    assert (temperature.gamma == 1).all()
    direct = AttentionSpecification("direct_absolute + direct_relative").build(0, shape)
    assert all((mechanism.scores == 0).all() for mechanism in direct)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("buckets", "longest"), [(32, 128), (4, 3), (12, 24), (64, 1000), (32, 17)]
)
def test_buckets_of_t5(buckets, longest, causal):
    """The buckets of any distance are those of the loops, with all for the past in a decoder."""
    written = f"t5_bias(buckets={buckets}, max={longest})"
    [mechanism] = AttentionSpecification(written).build(0, AttentionShape(HEADS, 4))
    part = slow.T5Bias(torch.zeros(1, 2 * buckets if causal else buckets), longest)
    distances = torch.arange(-2 * longest, 1 if causal else 2 * longest)
    expected = [part.bucket(step) for step in distances.tolist()]
    assert mechanism.buckets(distances, causal).tolist() == expected


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16])
def test_slopes_of_alibi(heads):
    [mechanism] = AttentionSpecification("alibi").build(0, AttentionShape(heads, 4))
    ctx = context([random_tree(1, 1)])
    bias = mechanism.bias(torch.zeros(1, heads, 2, 4, dtype=torch.float64), ctx)
    assert (-bias[0, :, 0, 1]).tolist() == slow.alibi_slopes(heads)


@pytest.mark.parametrize("sides", ["symmetric", "one_sided"])
def test_a_decoder_has_the_published_slopes(sides):
    """Every head looks back, whatever is chosen for an encoder."""
    [mechanism] = AttentionSpecification(f"alibi(sides={sides})").build(0, AttentionShape(4, 4))
    ctx = AttentionContext(3, torch.device("cpu"), causal=True)
    q = torch.zeros(1, 4, 3, 4, dtype=torch.float64)
    assert (-mechanism.bias(q, ctx)[0, :, 2, 1]).tolist() == slow.alibi_slopes(4)
    assert bool(mechanism.allowed(q, ctx).all())


def test_distances_are_dropped_in_training_only():
    tree = random_tree(8, 1)
    ctx = context([tree])
    [mechanism] = AttentionSpecification("deps_san(drop=0.5)").build(0, AttentionShape(4, 4))
    whole, most = mechanism.eval().distances(ctx.tree), ctx.tree.distances.max() + 1
    torch.manual_seed(1)
    dropped = mechanism.train().distances(ctx.tree)
    changed = dropped != whole
    assert 0.3 < changed.float().mean() < 0.7 and (dropped[changed] == most).all()


def test_a_head_of_odd_width_has_no_pairs():
    with pytest.raises(ValueError, match="an even head width, but the head width is 5"):
        AttentionSpecification("rope").check(1, AttentionShape(2, 5))
