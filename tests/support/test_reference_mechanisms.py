"""The slow reference of the mechanisms is checked against numbers worked out by hand.

Most cases have queries or keys of 0, so that all scores are 0 and what remains is the
mechanism; biases are logarithms, so that the weights are fractions.
"""

import math

import pytest
import torch

from support import reference_mechanisms as slow

LOG2, LOG3 = math.log(2), math.log(3)
HALF = math.atanh(0.5)  # tanh(HALF) = 1/2; sigmoid(log 3) = 3/4, sigmoid(-log 3) = 1/4
ONE = torch.ones(1)


def attend(q, k, v, parts, heads=1):
    """Queries, keys and values as given (I x C): projections that only select from x."""
    x = torch.tensor([[*a, *b, *c] for a, b, c in zip(q, k, v, strict=True)])
    width = len(q[0])
    wide = torch.eye(3 * width)
    projections = {
        name: (wide[n * width : (n + 1) * width], None)
        for n, name in enumerate(["q_proj", "k_proj", "v_proj"])
    }
    return slow.multi_head(x, projections, heads, parts)


def weights(parts, count, heads=1, q=0.0, k=0.0):
    """The weights where all queries are the same, and all keys."""
    rows = [[q] * heads] * count, [[k] * heads] * count, [[1.0] * heads] * count
    return attend(*rows, parts, heads)[1].tolist()


def near(found, expected):
    found = torch.as_tensor(found, dtype=torch.float64)
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-9
    )


def logs(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).log()


# --- the pipeline --------------------------------------------------------------------


def test_scores_are_scaled_and_sum_up_values():
    """The score of key 1 is q . k / sqrt(4) = log 3: weights 1/4, 3/4; 1/4 · 8 + 3/4 · 4 = 5."""
    q, k = [[2.0, 0, 0, 0]] * 2, [[0.0] * 4, [LOG3, 9, 9, 9]]
    o, a = attend(q, k, [[8.0, 0, 1, 0], [4.0, 0, 1, 4]], [])
    near(a, [[[1 / 4, 3 / 4]] * 2])
    near(o, [[5, 0, 1, 3]] * 2)


# --- windows and other masks ---------------------------------------------------------


def test_window():
    o, a = attend([[0.0]] * 4, [[9.0]] * 4, [[1.0], [2.0], [4.0], [8.0]], [slow.Window(3)])
    near(o, [[3 / 2], [7 / 3], [14 / 3], [6]])
    near(a[0][1], [1 / 3, 1 / 3, 1 / 3, 0])


# Three heads of width 1, q = 1; keys e^k = 1, 3, 1 of the three heads at piece 0, 1 at piece 1
AREA = (
    [[1.0, 1.0, 1.0]] * 2,
    [[0.0, LOG3, 0.0], [0.0, 0.0, 0.0]],
    [[10.0, 20.0, 40.0], [50.0, 60.0, 70.0]],
)


def test_window_across_heads():
    """Size 1, so query 0 sees piece 0 of its own head and of the neighbours that exist.

    Head 0: (10 + 3 · 20) / 4; head 1: (10 + 3 · 20 + 40) / 5; head 2: (3 · 20 + 40) / 4.
    """
    o, a = attend(*AREA, [slow.Window(1, across=3)], heads=3)
    near(o, [[17.5, 22, 25], [55, 60, 65]])
    near(a, [[[1, 0], [0, 1]]] * 3)


def test_directional():
    """Of two heads the first looks back; strictly, its first row is empty and gives zeros."""
    back, onwards = [[1, 0], [1 / 2, 1 / 2]], [[1 / 2, 1 / 2], [0, 1]]
    near(weights([slow.Directional()], 2, heads=2), [back, onwards])
    strict = [slow.Directional(strict=True)]
    o, _ = attend([[0.0, 0]] * 2, [[0.0, 0]] * 2, [[3.0, 4], [5.0, 6]], strict, heads=2)
    near(o, [[0, 6], [3, 0]])


# --- local attention -----------------------------------------------------------------


def test_gaussian():
    """With 2 sigma² = 1 / log 2 factors are 1, 1/2, 1/16; with 1 / log 3 they are 1, 1/3, 1/81."""
    part = slow.Gaussian(torch.tensor([(2 * LOG2) ** -0.5, (2 * LOG3) ** -0.5]))
    first, second = weights([part], 3, heads=2)
    near(first[0], [16 / 25, 8 / 25, 1 / 25])
    near(first[1], [1 / 4, 1 / 2, 1 / 4])
    near(second[0], [81 / 109, 27 / 109, 1 / 109])


def test_alibi():
    """Slopes of log 2 before the query and log 3 after it halve and third the weights."""
    slopes = torch.tensor([LOG2]), torch.tensor([LOG3])
    [found] = weights([slow.Alibi(*slopes)], 3)
    near(found, [[9 / 13, 3 / 13, 1 / 13], [3 / 11, 6 / 11, 2 / 11], [1 / 7, 2 / 7, 4 / 7]])
    [found] = weights([slow.Alibi(*slopes, offset=1.0, sides=(-1,))], 2)
    near(found, [[1, 0], [1 / 3, 2 / 3]])


def test_slopes_of_alibi():
    """These are the examples of the paper, for 8 heads, and of the program, for 6."""
    assert slow.alibi_slopes(8) == [2.0**-n for n in range(1, 9)]
    assert slow.alibi_slopes(6) == [1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8]


def test_buckets_of_t5():
    """With 32 buckets and 128, edges are powers of the square root of 2: 8, 11.3, 16 … 90.5."""
    part = slow.T5Bias(torch.zeros(1, 32), 128)
    edges = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    for n, edge in enumerate(edges):
        assert part.bucket(-edge) == n and (n == 0 or part.bucket(1 - edge) == n - 1)
    assert part.bucket(-5000) == 15
    assert [part.bucket(n) for n in (1, 7, 8, 11, 12, 91, 5000)] == [17, 23, 24, 24, 25, 31, 31]


def test_t5_bias():
    """Bucket 0 is the query itself, 1 is before it, and 3 after it; 2 is never used."""
    part = slow.T5Bias(torch.tensor([[0.0, LOG2, 9.0, LOG3]]), 3)
    first, *others = weights([part], 3)[0]
    near(first, [1 / 7, 3 / 7, 3 / 7])
    near(others, [[2 / 6, 1 / 6, 3 / 6], [2 / 5, 2 / 5, 1 / 5]])


def test_rope():
    """Base 1 turns both pairs by the position; of base 4 the second pair by half of it."""
    part = slow.Rope(base=4.0)
    turned = [math.cos(2), math.sin(2), -math.sin(1), math.cos(1)]
    near(part.turned([1.0, 0.0, 0.0, 1.0], 2), turned)
    halves = slow.Rope(base=4.0, halves=True)
    near(halves.turned([1.0, 0.0, 0.0, 1.0], 2), [turned[0], turned[2], turned[1], turned[3]])


def test_local_hard():
    """The centres are p = 2 and p = 3: query 0 sees keys 1 to 3, and query 1 sees 2 and 3."""
    # of 4 pieces: p = 4 · 1/2 and 4 · 3/4; 2 s² = 25/32
    part = slow.LocalHard(torch.tensor([[[HALF]]]), torch.tensor([[2 * LOG3]]), reach=1.25)
    far = math.exp(-32 / 25)
    near(weights([part], 4)[0][0], [0, far / 3, 1 / 3, far / 3])
    near(weights([part], 4, q=1.0)[0][3], [0, 0, far / 2, 1 / 2])


def test_local_soft():
    """Four pieces have q_i = (0, 1), W (0, 1) = (HALF, 0): tanh 1/2 for head 0, 0 for head 1.

    Head 0: P = 4 sigmoid(log 3) = 3, D = 4 sigmoid(-log 3) = 1, G = -2 (j - 3)².
    Head 1: P = D = 2, G = -(j - 2)² / 2.
    """
    W = torch.tensor([[0.0, HALF], [0.0, 0.0]])
    part = slow.LocalSoft(W, torch.full((2, 1), 2 * LOG3), torch.full((2, 1), -2 * LOG3))
    _, a = attend([[0.0, 1.0]] * 4, [[0.0] * 2] * 4, [[0.0] * 2] * 4, [part], heads=2)
    for head, bias in [(0, [-18, -8, -2, 0]), (1, [-2, -0.5, 0, -0.5])]:
        total = sum(math.exp(number) for number in bias)
        near(a[head], [[math.exp(number) / total for number in bias]] * 4)


# --- direct positions, temperature, convoluted attention -----------------------------


def test_direct_absolute_takes_the_corner():
    part = slow.DirectAbsolute(logs([[1, 3, 50], [2, 3, 50], [50, 50, 50]]))
    near(weights([part], 2), [[[1 / 4, 3 / 4], [2 / 5, 3 / 5]]])


def test_direct_relative():
    """With t = 2, R_0 to R_3 are log 1, 2, 3, 4 for i - j = -2 and less, -1, 0, 1 and more."""
    found = weights([slow.DirectRelative(logs([1, 2, 3, 4]))], 4)
    near(found[0][0], [3 / 7, 2 / 7, 1 / 7, 1 / 7])
    near(found[0][2], [4 / 13, 4 / 13, 3 / 13, 2 / 13])
    near(found[0][3], [4 / 15, 4 / 15, 4 / 15, 3 / 15])


def test_direct_relative_symmetric():
    """With t = 2, c_0 is (4 - 4) / 4 = 0, c_1 (4 - 0) / 4 = 1, c_2 (4 + 0 + 4) / 4 = 2, in log 2:
    factors 1, 2, 4 at distance 0, 1, 2 and more."""
    part = slow.DirectRelativeSymmetric(LOG2 * torch.tensor([[4.0, -4.0, 0.0, 0.0]]))
    found = weights([part], 4)
    near(found[0][0], [1 / 11, 2 / 11, 4 / 11, 4 / 11])
    near(found[0][1], [2 / 9, 1 / 9, 2 / 9, 4 / 9])


def test_temperature():
    """Head 0: scores 2 · 3 · (0, log 3 / 6), values 5 (4, 8): 1/4 · 20 + 3/4 · 40 = 35."""
    part = slow.Temperature(*torch.tensor([[2.0, 1.0], [3.0, 1.0], [5.0, 1.0]]))
    q, k, v = [[1.0, 1.0]] * 2, [[0.0, 0.0], [LOG3 / 6, LOG3]], [[4.0, 4.0], [8.0, 8.0]]
    near(attend(q, k, v, [part], heads=2)[0], [[35, 7]] * 2)


# weights (1/4, 3/4) and (2/5, 3/5)
UNEVEN = slow.DirectAbsolute(logs([[1, 3], [2, 3]]))


def test_convolved_1d():
    """With t = 3, I = 2, W_{j'=0, j=1, u=1} = 10 gives 10 · 3/5 in row 0, nothing below row 1.

    W_{1,0,0} = 2 and W_{1,0,-1} = 1: 2 · 1/4 in row 0, 2 · 2/5 + 1/4 in row 1. b = -1, 0.
    """
    weight = torch.zeros(1, 3, 3, 3)
    weight[0, 0, 1, 2], weight[0, 1, 0, 1], weight[0, 1, 0, 0] = 10, 2, 1
    weight[0, 2], weight[0, :, 2] = 100, 100
    part = slow.Convolved1d(weight, torch.tensor([[-1.0, 0.0, 50.0]]))
    near(weights([UNEVEN, part], 2), [[[5, 0.5], [0, 1.05]]])
    o, _ = attend([[0.0]] * 2, [[0.0]] * 2, [[1.0], [10.0]], [UNEVEN, part])
    near(o, [[10], [10.5]])


def test_convolved_2d():
    """W_{-1,0} = 1 takes the row above, W_{0,1} = 10 the column to the right; b = -1/2."""
    weight = torch.zeros(1, 3, 3)
    weight[0, 0, 1], weight[0, 1, 2] = 1, 10
    part = slow.Convolved2d(weight, torch.tensor([-0.5]))
    near(weights([UNEVEN, part], 2), [[[7, 0], [5.75, 0.25]]])


# --- structural positions ------------------------------------------------------------


def tree(parents, pieces):
    return slow.ParentScaled(parents, pieces)


def test_relative():
    """With r = 1, key 1 comes after row 0, so its score is log 3; the query of row 1 is 0.

    1/4 (1 + 20) + 3/4 (5 + 30) = 31.5, 1/2 (1 + 10) + 1/2 (5 + 20) = 18.
    """
    keys, values = torch.tensor([[[7.0], [0], [LOG3]]]), torch.tensor([[[10.0], [20], [30]]])
    part = slow.Relative(keys, values, 1)
    o, a = attend([[1.0], [0.0]], [[0.0], [0.0]], [[1.0], [5.0]], [part])
    near(o, [[31.5], [18]])
    near(a, [[[1 / 4, 3 / 4], [1 / 2, 1 / 2]]])


def test_tree_relative():
    """In "she sleeps" the relations of "she" are 0, +1 (its parent), -3 (end of sentence), r = 2.

    Rows 2, 3, 0 of the tables: e^score 2, 3, 5; (2 · 30 + 3 · 40 + 5 · 10) / 10 = 23.
    """
    keys = logs([5, 90, 2, 3, 90]).reshape(1, 5, 1)
    values = torch.tensor([[[10.0], [20], [30], [40], [50]]])
    part = slow.TreeRelative(keys, values, 2, [2, 0], [1, 1])
    o, a = attend([[1.0]] * 3, [[0.0]] * 3, [[0.0]] * 3, [part])
    near(a[0][0], [2 / 10, 3 / 10, 5 / 10])
    near(o[0], [23])


# the standard normal density at 0, 1/2, 1, 3/2, 2, 5/2, 3 and 7/2, from a printed table
N = {0: 0.39894228, 0.5: 0.35206533, 1: 0.24197072, 1.5: 0.12951760}
N |= {2: 0.05399097, 2.5: 0.01752830, 3: 0.00443185, 3.5: 0.00087268}


def test_parent_scaled():
    """Words have 2, 1 and 2 pieces; the last is the root, parent of the first, it of the second.

    Pieces 0 1 | 2 | 3 4 | end of sentence 5: m = 3.5, 3.5, 0.5, 3.5, 3.5, 5. All scores 1.
    """
    part = tree([3, 1, 0], [2, 1, 2])
    distances = [
        *[[3.5, 2.5, 1.5, 0.5, 0.5, 1.5]] * 2,
        [0.5, 0.5, 1.5, 2.5, 3.5, None],
        *[[3.5, 2.5, 1.5, 0.5, 0.5, 1.5]] * 2,
        [None, None, 3, 2, 1, 0],
    ]
    found = weights([part], 6, q=1.0, k=1.0)[0]
    for i, row in enumerate(distances):
        for j in range(6):
            if row[j] is not None:
                assert part.change(1.0, 0, i, j) == pytest.approx(N[row[j]], abs=1e-8)
                difference = N[row[j]] - N[row[3]]
                assert math.log(found[i][j] / found[i][3]) == pytest.approx(difference, abs=1e-7)


# --- block and cnn -------------------------------------------------------------------


def number(x):
    return torch.tensor([[float(x)]])


def projections_to_the_mean(width, factor=1.0):
    """Keys of 0; values as they are; the mean times a factor."""
    zero, eye = torch.zeros(width, width), torch.eye(width)
    names = {"q_proj": eye, "k_proj": zero, "v_proj": eye, "out_proj": factor * eye}
    return {name: (weight, None) for name, weight in names.items()}


def test_block():
    """The width is 1, the blocks {0, 1} and {2}, x = 2, 4, -5, and h = 1, 3, 8 is given.

    W1 h - 2 after ReLU: 0, 1, 6; times log 3: softmax 1/4, 3/4: v = 10/4 = 2.5; and v = 8.
    o = 16/21 · (2.5 + 8) / 2 = 4 for both. With W3 o = log 3 and W4 v + b3 = 0 and log 3:
    G = 3/4, 9/10; e = 3/4 · 4 + 1/4 · 2.5 = 3.625, e = 9/10 · 4 + 1/10 · 8 = 4.4.
    x + 10 h + 100 e - 380 = -5.5, 16.5, 135; F of (-1, 2, 7) log 3 + 1 = 1/2, 9/10, 2187/2188.
    """
    parameters = {
        "w1": (number(1), torch.tensor([-2.0])),
        "w2": (number(LOG3), torch.tensor([6.0])),
        "projections": projections_to_the_mean(1, 16 / 21),
        "w3": number(LOG3 / 4),
        "w4": number(LOG3 / 5.5),
        "b3": torch.tensor([-LOG3 * 2.5 / 5.5]),
        "w5": torch.tensor([[1.0, 10.0, 100.0]]),
        "b5": torch.tensor([-380.0]),
        "w6": torch.tensor([[0.0, LOG3, 0.0]]),
        "b6": torch.tensor([-LOG3]),
    }
    given = torch.tensor([[1.0], [3.0], [8.0]])
    seen = []
    y = slow.block(
        [[2.0], [4.0], [-5.0]], lambda x, parts: (seen.extend(parts), given)[1], 2, parameters, 1
    )
    near(y, [[0.5 * 2], [0.9 * 16.5 + 0.1 * 4], [(2187 * 135 - 5) / 2188]])
    near(weights(seen, 3), [[[1 / 2, 1 / 2, 0], [1 / 2, 1 / 2, 0], [0, 0, 1]]])


# Layer norm of (1, 3), (5, 3), (0, 2) is (-n, n), (n, -n), (-n, n)
STEPS, NORMAL = [[1.0, 3.0], [5.0, 3.0], [0.0, 2.0]], (1 + 1e-5) ** -0.5


def test_cnn_depthwise_separable():
    """The norm gives (-n, 2n + 1), (n, -2n + 1), (-n, 2n + 1). Kernels (1, 10, 100) and (0, 1, 0)
    + 1/2: (90n, 2n + 1.5), (-91n, -2n + 1.5), (-9n, 2n + 1.5); then (a, a + b - 1), ReLU.
    """
    layer = {
        "norm": (torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])),
        "depthwise": (torch.tensor([[1.0, 10, 100], [0, 1, 0]]), torch.tensor([0.0, 0.5])),
        "pointwise": (torch.tensor([[1.0, 0], [1, 1]]), torch.tensor([0.0, -1.0])),
    }
    n = NORMAL
    near(slow.cnn(STEPS, [layer]), [[1 + 90 * n, 3 + 92 * n + 0.5], [5, 3], [0, 2]])


# --- trees and others ----------------------------------------------------------------


def test_disentangled():
    """Of q = 3 and k = 1 the scores are 3 + 3 K + Q, by the root of 3 terms and d = 1."""
    keys, queries = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[2.0], [0.0]]])
    part = slow.Disentangled(keys, queries, 1)  # delta: 1 for i >= j, else 0
    _, found = attend([[3.0]] * 2, [[1.0]] * 2, [[1.0]] * 2, [part])
    root = math.sqrt(3)
    first, second = (math.exp(score / root) for score in (3 + 3 + 0, 3 + 0 + 0))
    near(found[0][0], [first / (first + second), second / (first + second)])
    first, second = (math.exp(score / root) for score in (3 + 3 + 2, 3 + 3 + 0))
    near(found[0][1], [first / (first + second), second / (first + second)])


SENTENCE = [2, 0, 2, 3], [1, 1, 1, 1]  # a chain of three words below the second, and the first


def test_tree_window():
    """Words 0 and 3 are three edges apart; the end of sentence is seen by all."""
    part = slow.TreeWindow(*SENTENCE, 1)
    assert [part.sees(0, j) for j in range(5)] == [True, True, False, False, True]
    assert [part.sees(4, j) for j in range(5)] == [True] * 5
    up = slow.TreeWindow(*SENTENCE, 2, "up")
    assert [up.sees(3, j) for j in range(4)] == [False, True, True, True]
    down = slow.TreeWindow(*SENTENCE, 1, "down")
    assert [down.sees(1, j) for j in range(4)] == [True, True, True, False]


def test_tree_distance():
    """The weights of the first word are 1, 1/2, 1/3, 1/3 and for the end of sentence 1."""
    table = torch.tensor([[0.0, -LOG2, -LOG3, 0.0]])
    near(
        weights([slow.TreeDistanceBias(*SENTENCE, table)], 5)[0][0],
        [6 / 19, 3 / 19, 2 / 19, 2 / 19, 6 / 19],
    )
    sigma = torch.tensor([(2 * LOG2) ** -0.5])
    part = slow.TreeDistanceGaussian(*SENTENCE, sigma)
    found = weights([part], 5)[0][0]
    near(found, [512 / 1313, 256 / 1313, 32 / 1313, 1 / 1313, 512 / 1313])


def test_deps_san():
    """With 2 sigma² = 1 / log 2 scores are halved for an edge; the end is four edges away."""
    part = slow.DepsSan(*SENTENCE, (2 * LOG2) ** -0.5)
    peak = math.sqrt(LOG2 / math.pi)
    near([part.change(1.0, 0, 0, j) / peak for j in range(5)], [1, 1 / 2, 1 / 16, 2**-9, 2**-16])
    cut = slow.DepsSan(*SENTENCE, (2 * LOG2) ** -0.5, furthest=1)
    near([cut.change(1.0, 0, 0, j) / peak for j in range(3)], [1, 1 / 2, 2**-16])


def test_tree_depth_relative():
    """Depths are 1, 0, 1, 2, and 3 for the end of sentence."""
    part = slow.TreeDepthRelative(*[torch.zeros(1, 5, 1)] * 2, 2, *SENTENCE)
    assert [part.row(0, j) - 2 for j in range(5)] == [0, -1, 0, 1, 2]


def test_tree_labels():
    """Below word 1 hang words 0 and 2, below word 2 word 3; of five labels each has its own."""
    part = slow.TreeLabels(
        *[torch.zeros(1, 12, 1)] * 2, 5, [2, 0, 2, 3], [1, 1, 2, 1], [4, 0, 3, 1]
    )
    assert [part.row(0, j) for j in range(6)] == [1, 2 + 4, 0, 0, 0, 0]
    assert [part.row(1, j) for j in range(6)] == [7 + 4, 1, 7 + 3, 7 + 3, 0, 0]


def test_biaffine():
    """With q = 3, k = 1 or 2, and U = 1, the scores q (1 + U) k are 6 and 12."""
    _, found = attend(
        [[3.0]] * 2, [[1.0], [2.0]], [[1.0]] * 2, [slow.Biaffine(torch.ones(1, 1, 1))]
    )
    near(found[0][0], [1 / (1 + math.exp(6)), 1 / (1 + math.exp(-6))])


def test_parent_targets():
    """Word 1, of pieces 1 and 2, is the root; words 0 and 2 (pieces 3 and 4) hang below it."""
    tree = [2, 0, 2], [1, 2, 2]
    assert slow.parent_targets(*tree, False) == [[1], [2], [2], [4], [1], []]
    assert slow.parent_targets(*tree, True) == [[1, 2]] * 5 + [[]]


def test_tree_gcn():
    """All gates are 1/2, so each word gets half of what its neighbours, x = 1, 2 and 4, say."""
    x = torch.tensor([[1.0], [2.0], [4.0]])  # a word, its parent in two pieces without an end
    x = torch.cat([x, torch.tensor([[5.0]])])  # the end of sentence
    nothing = torch.zeros(1, 1), torch.zeros(2, 1), torch.zeros(1), torch.zeros(2)
    doubled = torch.ones(1, 1) * 2, torch.tensor([[0.0], [1.0]]), torch.zeros(1), torch.zeros(2)
    tree = [2, 0], [1, 2], [1, 0]
    down = {"loop": nothing, "from_parent": doubled, "from_children": nothing}
    near(slow.tree_gcn(x, *tree, [down])[:, 0], [1 + (2 * 3 + 1) / 2, 2, 4, 5])
    up = {"loop": nothing, "from_parent": nothing, "from_children": doubled}
    near(slow.tree_gcn(x, *tree, [up])[:, 0], [1, 2 + 3 / 2, 4 + 3 / 2, 5])


def test_tree_depth_bias():
    """Depths are 1, 0, 1, 2 (which counts as 1) and the end of sentence."""
    part = slow.TreeDepthBias(*SENTENCE, torch.tensor([[0.0, LOG2, LOG3]]))
    near(weights([part], 5)[0][2], [2 / 10, 1 / 10, 2 / 10, 2 / 10, 3 / 10])
