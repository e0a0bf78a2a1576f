"""TER of languages that are written without spaces."""

import json
import re
import sys
from functools import cache

import pytest

from fairseq_posattn.lab.scoring.metrics.scores import Scoring, Settings, Translations
from support.commands import run

BY_CHARACTERS = "|norm:yes|punct:yes|asian:yes|"
BY_WORDS = "|norm:no|punct:yes|asian:no|"
CHINESE = {  # hypothesis -> reference
    "他昨天在上海买了两本书。": "他昨天在北京买了一本书。",  # 3 characters of 12
    "昨天我们去看电影。": "我们昨天去看电影。",  # 2 of 9, or 1: a shift
    "她有iPhone手机": "她有一部iPhone手机",  # 2 of 7
    "好。": "好。",
}
JAPANESE = {  # of kana, sacrebleu leaves what stands together in one piece
    "私は今日、本を買いました。": "私は昨日、本を買いました。",  # 1 of 10
    "明日は京都へ行きます。": "明日は東京へ行きます。",  # 2 of 9
    "コンピューターを使う。": "パソコンを使う。",  # 1 of 4
}


def scores(pairs: dict[str, str], settings: Settings) -> dict:
    """The scores of translations, each with its reference."""
    return Translations(Scoring([list(pairs.values())], settings), [list(pairs)]).plain_scores()


def tokens(line: str) -> tuple[str, ...]:
    """Split ideographs and punctuation from each other, and leave everything else in one piece."""
    return tuple(re.findall("[一-鿿。、，]|[^一-鿿。、， ]+", line.lower()))


@cache
def edits(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Count insertions, deletions and substitutions."""
    if not one or not other:
        return len(one) + len(other)
    changed = edits(one[1:], other[1:]) + (one[0] != other[0])
    return min(changed, 1 + edits(one[1:], other), 1 + edits(one, other[1:]))


def shifted(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Yield the words with any one block moved to any other place."""
    found = []
    for first in range(len(words)):
        for last in range(first + 1, len(words) + 1):
            block, rest = words[first:last], words[:first] + words[last:]
            found += [rest[:k] + block + rest[k:] for k in range(len(rest) + 1)]
    return found


def slow_ter(pairs: dict[str, str]) -> float:
    """Compute TER with at most one shift in a sentence."""
    total = length = 0
    for hypothesis, reference in pairs.items():
        ours, theirs = tokens(hypothesis), tokens(reference)
        total += min([edits(ours, theirs), *(1 + edits(s, theirs) for s in shifted(ours))])
        length += len(theirs)
    return 100 * total / length


@pytest.mark.parametrize(
    ("settings", "pairs", "expected"),
    [
        (Settings("zh"), CHINESE, 100 * (3 + 1 + 2 + 0) / (12 + 9 + 7 + 2)),
        (Settings("", "zh"), CHINESE, 100 * 6 / 30),
        (Settings("ja", "char"), JAPANESE, 100 * (1 + 2 + 1) / (10 + 9 + 4)),
    ],
)
def test_ter_of_characters_by_hand(settings, pairs, expected):
    found = scores(pairs, settings)["TER"]
    assert found.score == pytest.approx(expected) == slow_ter(pairs)
    assert BY_CHARACTERS in found.signature


def test_japanese_words_of_mecab():
    pytest.importorskip("ipadic")
    for settings in (Settings("ja"), Settings("", "ja-mecab")):
        found = scores(JAPANESE, settings)
        assert "tok:ja-mecab" in found["BLEU"].signature
        assert found["TER"].score == pytest.approx(slow_ter(JAPANESE))


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings("de"), Settings("en", "char"), Settings("ko", "13a")]
    + [Settings("zh", "none"), Settings("ja", "none")],  # tokenised, so there are spaces
)
def test_ter_of_words(settings):
    found = scores({"a b x d": "a b c d"}, settings)["TER"]
    assert found.score == pytest.approx(25)
    assert BY_WORDS in found.signature


def test_sacrebleus_own_command(tmp_path):
    (tmp_path / "hyp").write_text("\n".join(CHINESE) + "\n", encoding="utf-8")
    (tmp_path / "ref").write_text("\n".join(CHINESE.values()) + "\n", encoding="utf-8")
    printed = run(
        *(sys.executable, "-m", "sacrebleu", tmp_path / "ref", "-i", tmp_path / "hyp"),
        *("-m", "ter", "--ter-asian-support", "--ter-normalized", "-w", 10, "-f", "json"),
    ).stdout
    expected = json.loads(printed[printed.index("{") :])
    found = scores(CHINESE, Settings("zh"))["TER"]
    assert found.score == pytest.approx(expected["score"], abs=1e-9)
    assert found.signature == expected["signature"]
