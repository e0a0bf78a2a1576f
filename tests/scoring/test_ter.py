"""TER of languages that are written without spaces."""

import json
import sys

import pytest

from fairseq_posattn.scoring.metrics.runs import Samples
from fairseq_posattn.scoring.metrics.scores import Scoring, Translations
from fairseq_posattn.scoring.request import ScoreRequest
from support.commands import run
from support.scored_systems import request

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
TER_OF_JAPANESE = 100 * (1 + 2 + 1) / (10 + 9 + 4)


def scores(pairs: dict[str, str], settings: ScoreRequest) -> dict:
    """The scores of translations, each with its reference."""
    return Translations(Scoring([list(pairs.values())], settings), [list(pairs)]).scores(Samples(2))


@pytest.mark.parametrize(
    ("settings", "pairs", "expected"),
    [
        (request("zh"), CHINESE, 100 * (3 + 1 + 2 + 0) / (12 + 9 + 7 + 2)),
        (request("", "zh"), CHINESE, 100 * 6 / 30),
        (request("ja", "char"), JAPANESE, TER_OF_JAPANESE),
    ],
)
def test_ter_of_characters_by_hand(settings, pairs, expected):
    found = scores(pairs, settings)["TER"]
    assert found.score == pytest.approx(expected)
    assert BY_CHARACTERS in found.signature


def test_japanese_words_of_mecab():
    pytest.importorskip("ipadic")
    for settings in (request("ja"), request("", "ja-mecab")):
        found = scores(JAPANESE, settings)
        assert "tok:ja-mecab" in found["BLEU"].signature
        assert found["TER"].score == pytest.approx(TER_OF_JAPANESE)


@pytest.mark.parametrize(
    "settings",
    [request(), request("de"), request("en", "char"), request("ko", "13a")]
    + [request("zh", "none"), request("ja", "none")],  # tokenised, so there are spaces
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
    found = scores(CHINESE, request("zh"))["TER"]
    assert found.score == pytest.approx(expected["score"], abs=1e-9)
    assert found.signature == expected["signature"]
