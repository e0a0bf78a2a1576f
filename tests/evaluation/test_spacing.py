"""A tokenised text beside a plain one is told to the user, and nothing else is."""

import json

import pytest

from fairseq_posattn.cli import score
from fairseq_posattn.evaluation.metrics.scores import Scoring, Settings, Translations
from fairseq_posattn.evaluation.metrics.spacing import Text, spaced_differently
from fairseq_posattn.io.records import as_document

PLAIN = {
    "ja": ["私は昨日、新しい本を三冊買いました。", "これはペンです。", "彼は学生ではありません。"],
    "zh": ["他昨天在北京买了一本书。", "我用 Windows 系统，她不用。", "好的，我们走吧。"],
    "en": ["Well, the dog barks.", "It costs 3.5 euros, they say.", "Nobody has seen it."],
}
TOKENISED = {
    "ja": ["私 は 昨日 、 新しい 本 を 三 冊 買い まし た 。", "これ は ペン です 。"]
    + ["彼 は 学生 で は あり ませ ん 。"],
    "zh": [
        "他 昨天 在 北京 买 了 一 本 书 。",
        "我 用 Windows 系统 ， 她 不 用 。",
        "好 的 ， 走 吧 。",
    ],
    "en": ["Well , the dog barks .", "It costs 3.5 euros , they say .", "Nobody has seen it ."],
}


@pytest.mark.parametrize("language", PLAIN)
@pytest.mark.parametrize("swapped", [False, True])
def test_one_side_is_tokenised(language, swapped):
    texts = Text("plain", PLAIN[language]), Text("tokenised", TOKENISED[language])
    found = spaced_differently(*(reversed(texts) if swapped else texts))
    assert "are spaced differently" in found and "\n" not in found
    assert "plain" in found and "tokenised" in found


@pytest.mark.parametrize("language", PLAIN)
def test_texts_that_are_spaced_alike(language):
    for texts in (PLAIN[language], TOKENISED[language]):
        shorter = [line[: len(line) * 2 // 3] for line in texts]
        for others in (texts, shorter, texts[::-1]):
            assert spaced_differently(Text("a", texts), Text("b", others)) is None


@pytest.mark.parametrize("lines", [[], [""], ["", ""], ["a"], ["。"], [" "], ["\u3000"]])
def test_texts_that_say_nothing(lines):
    for others in (lines, PLAIN["ja"], TOKENISED["en"]):
        assert spaced_differently(Text("a", lines), Text("b", others)) is None


# posattn-score


@pytest.fixture
def score_files(monkeypatch, tmp_path, capsys):
    """Score texts of these lines; -> the scores, and what stands on stderr."""

    def scored(*options, **texts):
        for name, lines in texts.items():
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        command = ["posattn-score", "hyp", "--json", "out", *map(str, options)]
        monkeypatch.setattr("sys.argv", command)
        score.main()
        scores = json.loads((tmp_path / "out").read_text(encoding="utf-8"))["scores"]
        return scores, capsys.readouterr().err

    return scored


@pytest.mark.parametrize("hypotheses", ["plain", "tokenised"])
def test_a_warning_and_the_score(score_files, hypotheses):
    ours, theirs = (PLAIN, TOKENISED) if hypotheses == "plain" else (TOKENISED, PLAIN)
    options = "--references", "ref", "--tokenize", "zh"
    scores, printed = score_files(*options, hyp=ours["zh"], ref=theirs["zh"])
    assert printed.startswith("warning: hyp and ref are spaced differently (spaces between ")
    assert printed.count("\n") == 1 and len(printed) <= 300
    expected = Translations(Scoring([theirs["zh"]], Settings("", "zh")), [ours["zh"]])
    assert scores == as_document(expected.scores(1000, 12345))


def test_no_warning_where_both_are_alike(score_files):
    for texts in (PLAIN, TOKENISED):
        _, printed = score_files("--references", "ref", hyp=texts["en"], ref=texts["en"])
        assert printed == ""


def test_every_reference_and_the_baseline_are_looked_at(score_files):
    plain, tokenised = PLAIN["en"], TOKENISED["en"]
    options = "--references", "ref", "other", "--baseline", "base", "--samples", 2
    texts = {"hyp": plain, "ref": plain, "other": plain, "base": plain}
    for name in ("other", "base"):
        _, printed = score_files(*options, **{**texts, name: tokenised})
        assert f"{name} " in printed and printed.startswith("warning: ")
    assert score_files(*options, **texts)[1] == ""


def test_japanese_bleu_falls_where_one_side_is_tokenised(score_files):
    """What the warning is there for."""
    pytest.importorskip("ipadic")
    hypotheses = [line.replace("本", "鞄") for line in PLAIN["ja"]]
    options = "--references", "ref", "-t", "ja"
    right, quiet = score_files(*options, hyp=hypotheses, ref=PLAIN["ja"])
    spaced = [" ".join(line) for line in PLAIN["ja"]]
    wrong, printed = score_files(*options, hyp=hypotheses, ref=spaced)
    assert wrong["BLEU"]["score"] < right["BLEU"]["score"]
    assert quiet == "" and "are spaced differently" in printed
