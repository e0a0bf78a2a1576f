"""Words on pieces through character offsets: hand-made cases, and random ones against the loops."""

import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_posattn.trees import TreeError
from fairseq_posattn.trees.projection import match, project_spans, word_spans
from support import reference_projection as reference
from support.random_trees import LETTERS, parents

# --- spans of words ------------------------------------------------------------------

# --- words of pieces, by hand ----------------------------------------------------------

HELLO = [(0, 5), (5, 10), (10, 11)]  # Hello world .
HELLO_PIECES = [(0, 5), (5, 11)]  # ▁Hello ▁world.
CHINESE = [(0, 1), (1, 2), (2, 4), (4, 5)]  # 我 爱 北京 。
CHINESE_PIECES = [(0, 0), (0, 2), (2, 3), (3, 5)]  # ▁ 我爱 北 京。
THREE = [(0, 1), (1, 2), (2, 3)]
IM_HAUS = [(0, 2), (0, 2), (2, 6)]  # im = in + dem, Haus
GIBS = [(0, 3), (3, 5), (3, 5)]  # Gib, 's = es + das

PROJECTED = {
    "nothing": ([], [], [], []),
    "'world.': world is the parent of the stop": ([2, 0, 2], HELLO, HELLO_PIECES, [1, 1, 0]),
    "'world.': the stop is the parent": ([0, 3, 1], HELLO, HELLO_PIECES, [1, 0, 1]),
    "Chinese": ([2, 0, 2, 2], CHINESE, CHINESE_PIECES, [1, 1, 2, 0]),
    "head first": ([0, 1, 1], THREE, [(0, 3)], [1, 0, 0]),
    "head last, not the root": ([3, 3, 4, 0], [*THREE, (3, 4)], [(0, 3), (3, 4)], [0, 0, 1, 1]),
    "a chain down has no parent of all": ([0, 1, 2], THREE, [(0, 3)], [1, 0, 0]),
    "several pieces of a word": ([0], [(0, 6)], [(0, 2), (2, 3), (3, 6)], [3]),
    "im Haus: the parent of both": ([3, 3, 0], IM_HAUS, [(0, 6)], [0, 0, 1]),
    # m + Haus: no parent of all, so in, which is before dem
    "never before the previous": ([2, 0, 1], IM_HAUS, [(0, 1), (1, 6)], [0, 2, 0]),
    # the same with a parent of the words that are not before dem: it is no parent of all
    "the choice is among all words": ([2, 3, 0], IM_HAUS, [(0, 1), (1, 6)], [0, 2, 0]),
    "empty inside a word": ([2, 0], [(0, 2), (2, 4)], [(0, 1), (1, 1), (1, 4)], [2, 1]),
    "empty before several words: the parent": ([2, 3, 0], IM_HAUS, [(0, 0)], [0, 1, 0]),
    "empty at the end, several words: the parent": ([0, 3, 1], GIBS, [(5, 5)], [0, 0, 1]),
    "a word without characters": ([3, 1, 0], [(0, 3), (3, 3), (3, 4)], [(0, 4)], [0, 0, 1]),
    "characters without a piece": ([2, 0, 2], HELLO, [(1, 3), (10, 11)], [1, 0, 1]),
}


@pytest.mark.parametrize("case", PROJECTED.values(), ids=PROJECTED)
def test_project_spans(case):
    *given, expected = case
    assert reference.project(*given) == expected
    assert project_spans(*given) == expected


# --- words of pieces, at random --------------------------------------------------------

# any character, and more often one that means something here
CHARACTERS = LETTERS | st.sampled_from(
    "aBzßẞäÖſςΣжЖ北京あアｱＡ１2٣عب\u0301.,’'“\"—-，。$^`🙂 ␣\u00a0\u3000\t"
)


def tokens() -> st.SearchStrategy[str]:
    """With a character at least that is not whitespace."""
    return st.text(CHARACTERS, min_size=1, max_size=5).filter(reference.dense)


@st.composite
def sentences(draw):
    """A tree, its tokens, and how many of its words each token has."""
    tree = draw(parents(most=9).filter(len))
    ends = sorted(draw(st.sets(st.integers(1, len(tree)))) | {len(tree)})
    words_of_token = [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    texts = [draw(tokens()) for _ in words_of_token]
    return tree, texts, words_of_token


def cut(draw, length: int) -> list[reference.Span]:
    """Spans one after the other: some empty, wherever, some characters without any."""
    points = sorted(draw(st.lists(st.integers(0, length), max_size=2 * length)))
    bounds = zip([0, *points], [*points, length], strict=True)
    return [span for span in bounds if draw(st.integers(0, 7))]


@settings(max_examples=100)
@given(sentences(), st.data())
def test_random_pieces_equal_the_loops(sentence, data):
    tree, texts, words_of_token = sentence
    spans = word_spans(texts, words_of_token)
    assert spans == reference.word_spans(texts, words_of_token)
    pieces = cut(data.draw, spans[-1][1])
    counts = project_spans(tree, spans, pieces)
    assert counts == reference.project(tree, spans, pieces)
    assert sum(counts) == len(pieces)


# --- the line and the tokens -------------------------------------------------------------

SAME = [
    ("der Hund bellt", ["Der", "hund", "BELLT"]),  # truecasing
    ("It’s “so”", ["It", "'s", '"', "so", '"']),
    ("``so''", ["“„", "so", "”", "’"]),
    ("It´s", ["It's"]),  # an acute accent, whose NFKC is two characters
    ("a – b…", ["a", "-", "b", "."]),
    ("你好，世界！", ["你好", ",", "世界", "!"]),
    ("１２％ ＡＢｃ ｱ", ["12", "%", "ABC", "ア"]),
    ("$5 €5 +5 §5", ["€", "5", "$", "5", "–5", "¶", "5"]),  # symbols and punctuation
    ("10 000\u00a0m\tx", ["10␣000", "m x"]),
    ("10␣000m", ["10000", "m"]),
    ("a b c", ["ab", "c"]),
    ("Straße STRAẞE", ["STRAẞE", "straße"]),
    ("ΛΟΓΟΣ λογος", ["λογος", "ΛΟΓΟΣ"]),
    ("ISPARTA ısparta", ["ısparta", "Isparta"]),
    ("é́", ["É́"]),
]
DIFFERENT = [
    ("abc", ["ab"]),
    ("abc abc", ["bca", "bca"]),  # shifted, and as long
    (".abc", ["abc", "."]),
    ("a", ["а"]),  # Latin and Cyrillic
    ("1", ["."]),
    ("e\u0301", ["é"]),
    ("a\u0301", ["a."]),
    ("½", ["1"]),
]


@pytest.mark.parametrize(("line", "tokens"), SAME)
def test_the_same(line, tokens):
    assert reference.matches(line, tokens)
    match(line, tokens, "here")


@pytest.mark.parametrize(("line", "tokens"), DIFFERENT)
def test_different(line, tokens):
    assert not reference.matches(line, tokens)
    with pytest.raises(TreeError, match="here") as error:
        match(line, tokens, "here")
    assert reference.dense(line) in reference.dense(str(error.value))
    assert reference.dense("".join(tokens)) in reference.dense(str(error.value))


def forms_of(character: str) -> set[str]:
    """The character in the other case and in NFKC, where that is one character."""
    plain = unicodedata.normalize("NFKC", character)
    forms = {plain}
    for one in (character, plain):
        forms |= {one.upper(), one.lower(), one.title()}
    return {form for form in forms if len(form) == 1 and reference.dense(form)}


def accepted(line: str, tokens: list[str]) -> bool:
    try:
        match(line, tokens, "here")
    except TreeError:
        return False
    return True


ASSIGNED = [
    one
    for one in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(one) not in ("Cn", "Co", "Cs") and reference.dense(one)
]


def test_every_character_is_the_same_as_its_other_forms():
    pairs = [(one, form) for one in ASSIGNED for form in forms_of(one) - {one}]
    assert len(pairs) > 5000
    refused = [(a, b) for a, b in pairs if not (accepted(a, [b]) and accepted(b, [a]))]
    assert not refused


def test_every_mark_is_the_same_as_every_other():
    marks = [one for one in ASSIGNED if reference.is_mark(one)]
    assert len(marks) > 5000
    refused = [one for one in marks if not (accepted(one, ["-"]) and accepted("-", [one]))]
    assert not refused


CONFUSED = st.text("aAbä.,’$1１é\u0301ςΣß ␣", max_size=5)


@settings(max_examples=150)
@given(CONFUSED, st.lists(CONFUSED, max_size=3))
@example("aab", ["ab", "a"])
def test_random_lines_match_as_in_the_loops(line, texts):
    assert accepted(line, texts) == reference.matches(line, texts)
