"""Small trees are drawn by hand, with depths and relations worked out on paper.

Nothing here is computed, save the two long trees at the end, which are given by
formula. Parents count from 1, 0 = root. `piece_depths` and `relations` are over pieces
and end of sentence (`.`, always last), the relations unclipped, row = query.

How to check a number: an edge between the two words -> depth(row) - depth(column);
same word -> 0; otherwise the sum of the depths, minus if the row's word comes first.
"""

from typing import NamedTuple


class Drawn(NamedTuple):
    name: str
    words: str
    parents: list[int]
    pieces: list[int]  # number of pieces of each word
    depths: list[int]  # of the words
    piece_depths: list[int]
    relations: list[list[int]]
    keep: int | None = None  # pieces that truncation leaves; None: all
    as_parsed: list[int] | None = None  # before further roots joined the first


# depth 0   go            end of sentence: 1 + 0
SINGLE_WORD = Drawn(
    name="single word",
    words="go",
    parents=[0],
    pieces=[1],
    depths=[0],
    piece_depths=[0, 1],
    relations=[
        [0, -1],
        [1, 0],
    ],
)

# depth 0        sleeps
#               /
# depth 1    she               end of sentence: 2
TWO_WORDS = Drawn(
    name="two words",
    words="she sleeps",
    parents=[2, 0],
    pieces=[1, 1],
    depths=[1, 0],
    piece_depths=[1, 0, 2],
    relations=[
        # she sleeps .
        [0, 1, -3],  # she
        [-1, 0, -2],  # sleeps
        [3, 2, 0],  # .
    ],
)

# depth 0   try
#              \
# depth 1       eating
#                     \
# depth 2              less          end of sentence: 3
CHAIN_DOWN = Drawn(
    name="chain of three, root first",
    words="try eating less",
    parents=[0, 1, 2],
    pieces=[1, 1, 1],
    depths=[0, 1, 2],
    piece_depths=[0, 1, 2, 3],
    relations=[
        [0, -1, -2, -3],
        [1, 0, -1, -4],
        [2, 1, 0, -5],
        [3, 4, 5, 0],
    ],
)

# depth 0                   came
#                          /
# depth 1              guests
#                     /
# depth 2          few               end of sentence: 3
CHAIN_UP = Drawn(
    name="chain of three, root last",
    words="few guests came",
    parents=[2, 3, 0],
    pieces=[1, 1, 1],
    depths=[2, 1, 0],
    piece_depths=[2, 1, 0, 3],
    relations=[
        [0, 1, -2, -5],
        [-1, 0, 1, -4],
        [2, -1, 0, -3],
        [5, 4, 3, 0],
    ],
)

# The sentence of the paper's Figure 1; "with" hangs on "talk" in our drawing.
#
# depth 0           held
#                  /    \
# depth 1      Bush      talk
#                       /    \
# depth 2              a      with
#                                 \
# depth 3                          Sharon       end of sentence: 4
BUSH = Drawn(
    name="the paper's sentence",
    words="Bush held a talk with Sharon",
    parents=[2, 0, 4, 2, 4, 5],
    pieces=[1, 1, 1, 1, 1, 1],
    depths=[1, 0, 2, 1, 2, 3],
    piece_depths=[1, 0, 2, 1, 2, 3, 4],
    relations=[
        # Bush held a talk with Sharon .
        [0, 1, -3, -2, -3, -4, -5],  # Bush
        [-1, 0, -2, -1, -2, -3, -4],  # held
        [3, 2, 0, 1, -4, -5, -6],  # a
        [2, 1, -1, 0, -1, -4, -5],  # talk
        [3, 2, 4, 1, 0, -1, -6],  # with
        [4, 3, 5, 4, 1, 0, -7],  # Sharon
        [5, 4, 6, 5, 6, 7, 0],  # .
    ],
)

# depth 0          re@@ open@@ ed
#                 /              \
# depth 1     they                muse@@ um
#                                /
# depth 2                     the                end of sentence: 3
PIECES = Drawn(
    name="words in several pieces",
    words="they reopened the museum",
    parents=[2, 0, 4, 2],
    pieces=[1, 3, 1, 2],
    depths=[1, 0, 2, 1],
    piece_depths=[1, 0, 0, 0, 2, 1, 1, 3],
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

# End of sentence is 1 + the largest depth, not 1 + the last. It has no edge, not even
# to the root beside it.
#
# depth 0                        barks
#                               /
# depth 1                    dog
#                           /  |
# depth 2                the  old               end of sentence: 3
END_OF_SENTENCE = Drawn(
    name="end of sentence after a shallow word",
    words="the old dog barks",
    parents=[3, 3, 4, 0],
    pieces=[1, 1, 1, 1],
    depths=[2, 2, 1, 0],
    piece_depths=[2, 2, 1, 0, 3],
    relations=[
        # the old dog barks .
        [0, -4, 1, -2, -5],  # the
        [4, 0, 1, -2, -5],  # old
        [-1, -1, 0, 1, -4],  # dog
        [2, 2, -1, 0, -3],  # barks
        [5, 5, 4, 3, 0],  # .
    ],
)

# Three roots as parsed: done, thanks, "!". The last two became children of the first.
#
# depth 0          done
#                 /  |  \_______________
# depth 1     well  thanks              !
#                         \
# depth 2                  everyone             end of sentence: 3
SEVERAL_ROOTS = Drawn(
    name="several roots, joined to the first",
    words="well done thanks everyone !",
    parents=[2, 0, 2, 3, 2],
    as_parsed=[2, 0, 0, 3, 0],
    pieces=[1, 1, 1, 1, 1],
    depths=[1, 0, 1, 2, 1],
    piece_depths=[1, 0, 1, 2, 1, 3],
    relations=[
        # well done thanks everyone ! .
        [0, 1, -2, -3, -2, -4],  # well
        [-1, 0, -1, -2, -1, -3],  # done
        [2, 1, 0, -1, -2, -4],  # thanks
        [3, 2, 1, 0, -3, -5],  # everyone
        [2, 1, 2, 3, 0, -4],  # !
        [4, 3, 4, 5, 4, 0],  # .
    ],
)

# "on" hangs on "hearing", across "is" and "scheduled": the edges cross.
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
    words="a hearing is scheduled on the issue today",
    parents=[2, 3, 0, 3, 2, 7, 5, 4],
    pieces=[1, 1, 1, 1, 1, 1, 1, 1],
    depths=[2, 1, 0, 1, 2, 4, 3, 2],
    piece_depths=[2, 1, 0, 1, 2, 4, 3, 2, 5],
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
#
# depth 0          re@@ open@@ | ed
#                 /            |     \
# depth 1     they             |      muse@@ um
#                              |     /
# depth 2                      |  the           end of sentence: 2
TRUNCATED = Drawn(
    name="truncated inside a word, deepest word gone",
    words="they reopened the museum",
    parents=[2, 0, 4, 2],
    pieces=[1, 3, 1, 2],
    keep=3,
    depths=[1, 0, 2, 1],
    piece_depths=[1, 0, 0, 2],
    relations=[
        # they re@@ open@@ .
        [0, 1, 1, -3],  # they
        [-1, 0, 0, -2],  # re@@
        [-1, 0, 0, -2],  # open@@
        [3, 2, 2, 0],  # .
    ],
)

# END_OF_SENTENCE cut after "old": the root is gone, what remains keeps depth 2.
TRUNCATED_ROOT = Drawn(
    name="truncated before the root",
    words="the old dog barks",
    parents=[3, 3, 4, 0],
    pieces=[1, 1, 1, 1],
    keep=2,
    depths=[2, 2, 1, 0],
    piece_depths=[2, 2, 3],
    relations=[
        # the old .
        [0, -4, -5],  # the
        [4, 0, -5],  # old
        [5, 5, 0],  # .
    ],
)

# More room than pieces: nothing is cut.
TRUNCATED_NOTHING = TWO_WORDS._replace(name="truncated beyond the end", keep=9)

# Nothing left: end of sentence alone has depth 0 (ours).
TRUNCATED_ALL = Drawn(
    name="truncated to nothing",
    words="she sleeps",
    parents=[2, 0],
    pieces=[1, 1],
    keep=0,
    depths=[1, 0],
    piece_depths=[0],
    relations=[[0]],
)

EMPTY = Drawn(
    name="empty sentence",
    words="",
    parents=[],
    pieces=[],
    depths=[],
    piece_depths=[0],
    relations=[[0]],
)

ALL = [
    SINGLE_WORD,
    TWO_WORDS,
    CHAIN_DOWN,
    CHAIN_UP,
    BUSH,
    PIECES,
    END_OF_SENTENCE,
    SEVERAL_ROOTS,
    NON_PROJECTIVE,
    TRUNCATED,
    TRUNCATED_ROOT,
    TRUNCATED_NOTHING,
    TRUNCATED_ALL,
    EMPTY,
]

# --- two long trees by formula, one piece for each word ------------------------------

LONG = 200

# word 1 <- word 2 <- ... <- word 200: depths 0 ... 199, end of sentence 200
CHAIN_PARENTS = list(range(LONG))
CHAIN_DEPTHS = list(range(LONG))
CHAIN_PIECE_DEPTHS = list(range(LONG + 1))


def chain_relation(i: int, j: int) -> int:
    """Return the relation of two positions from 0, where 200 is end of sentence; depth(i) = i."""
    if i == j:
        return 0
    if abs(i - j) == 1 and max(i, j) < LONG:
        return i - j
    return i + j if i > j else -(i + j)


# Word 100 is the root, all others its children: depths 1 ... 1 0 1 ... 1, end 2
STAR_ROOT = 100
STAR_PARENTS = [STAR_ROOT] * (STAR_ROOT - 1) + [0] + [STAR_ROOT] * (LONG - STAR_ROOT)
STAR_DEPTHS = [1] * (STAR_ROOT - 1) + [0] + [1] * (LONG - STAR_ROOT)
STAR_PIECE_DEPTHS = STAR_DEPTHS + [2]


def star_relation(i: int, j: int) -> int:
    """Positions from 0: the root is 99, end of sentence 200."""
    root, end = STAR_ROOT - 1, LONG
    if i == j:
        return 0
    if i == end or j == end:
        size = 2 if root in (i, j) else 3
        return size if i == end else -size
    if i == root:
        return -1
    if j == root:
        return 1
    return 2 if i > j else -2
