"""Small trees are drawn by hand, with depths and relations worked out on paper.

Nothing here is computed. Parents count from 1, 0 = root. `depths` and `relations` are over pieces
and end of sentence (`.`, always last), the relations unclipped, row = query.

How to check a number: an edge between the two words -> depth(row) - depth(column);
same word -> 0; otherwise the sum of the depths, minus if the row's word comes first.
"""

from typing import NamedTuple


class Drawn(NamedTuple):
    name: str
    parents: list[int]
    pieces: list[int]  # number of pieces of each word
    depths: list[int]
    relations: list[list[int]]
    keep: int | None = None  # pieces that truncation leaves; None: all


# depth 0          re@@ open@@ ed
#                 /              \
# depth 1     they                muse@@ um
#                                /
# depth 2                     the                end of sentence: 3
PIECES = Drawn(
    name="words in several pieces",
    parents=[2, 0, 4, 2],
    pieces=[1, 3, 1, 2],
    depths=[1, 0, 0, 0, 2, 1, 1, 3],
    relations=[
        # they re@@ open@@ ed the muse@@ um .
        [0, 1, 1, 1, -3, -2, -2, -4],  # they
        [-1, 0, 0, 0, -2, -1, -1, -3],  # re@@
        [-1, 0, 0, 0, -2, -1, -1, -3],  # open@@
        [-1, 0, 0, 0, -2, -1, -1, -3],  # ed
        [3, 2, 2, 2, 0, 1, 1, -5],  # the
        [2, 1, 1, 1, -1, 0, 0, -4],  # muse@@
        [2, 1, 1, 1, -1, 0, 0, -4],  # um
        [4, 3, 3, 3, 5, 4, 4, 0],  # .
    ],
)

# "on" hangs on "hearing", across "is" and "scheduled": the edges cross. End of sentence is 1 + the
# largest depth, not 1 + the last.
#
# depth 0                  is
#                         /  \
# depth 1         hearing     scheduled
#                /       \             \
# depth 2       a         on            today
#                           \
# depth 3                    issue
#                           /
# depth 4                the                    end of sentence: 5
NON_PROJECTIVE = Drawn(
    name="non-projective",
    parents=[2, 3, 0, 3, 2, 7, 5, 4],
    pieces=[1, 1, 1, 1, 1, 1, 1, 1],
    depths=[2, 1, 0, 1, 2, 4, 3, 2, 5],
    relations=[
        # a hearing is scheduled on the issue today .
        [0, 1, -2, -3, -4, -6, -5, -4, -7],  # a
        [-1, 0, 1, -2, -1, -5, -4, -3, -6],  # hearing
        [2, -1, 0, -1, -2, -4, -3, -2, -5],  # is
        [3, 2, 1, 0, -3, -5, -4, -1, -6],  # scheduled
        [4, 1, 2, 3, 0, -6, -1, -4, -7],  # on
        [6, 5, 4, 5, 6, 0, 1, -6, -9],  # the
        [5, 4, 3, 4, 1, -1, 0, -5, -8],  # issue
        [4, 3, 2, 1, 4, 6, 5, 0, -7],  # today
        [7, 6, 5, 6, 7, 9, 8, 7, 0],  # .
    ],
)

# PIECES cut after "open@@": the deepest word is gone, so end of sentence is 1 + 1.
TRUNCATED = Drawn(
    name="truncated inside a word, deepest word gone",
    parents=[2, 0, 4, 2],
    pieces=[1, 3, 1, 2],
    keep=3,
    depths=[1, 0, 0, 2],
    relations=[
        # they re@@ open@@ .
        [0, 1, 1, -3],  # they
        [-1, 0, 0, -2],  # re@@
        [-1, 0, 0, -2],  # open@@
        [3, 2, 2, 0],  # .
    ],
)

# "the old dog barks" cut after "old": the root is gone, what remains keeps depth 2.
TRUNCATED_ROOT = Drawn(
    name="truncated before the root",
    parents=[3, 3, 4, 0],
    pieces=[1, 1, 1, 1],
    keep=2,
    depths=[2, 2, 3],
    relations=[
        # the old .
        [0, -4, -5],  # the
        [4, 0, -5],  # old
        [5, 5, 0],  # .
    ],
)

# Nothing left: end of sentence alone has depth 0 (ours).
TRUNCATED_ALL = Drawn("truncated to nothing", [2, 0], [1, 1], [0], [[0]], keep=0)
EMPTY = Drawn("empty sentence", [], [], [0], [[0]])

ALL = [PIECES, NON_PROJECTIVE, TRUNCATED, TRUNCATED_ROOT, TRUNCATED_ALL, EMPTY]
